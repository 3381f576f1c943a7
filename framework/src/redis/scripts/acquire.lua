-- The response of the epoch ARGV[3] to a request, or else a mark that it is under way. KEYS: its entry, its mark. ARGV: a token, how long
-- the mark lasts (ms), and with what entries of the epoch begin; '' where no response is asked for.
-- Only as long as a mark of ours may last does one count: one without end, or of a clock that was set back, gives way.
if ARGV[3] ~= '' then
    local kept = redis.pcall('GET', KEYS[1])
    if type(kept) == 'string' and string.sub(kept, 1, #ARGV[3]) == ARGV[3] then
        return {'kept', kept}
    end
end
local left = redis.call('PTTL', KEYS[2])
if left >= 0 and left <= tonumber(ARGV[2]) then
    return {'held', left}
end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return {'acquired'}
