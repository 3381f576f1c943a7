-- Keeps the response to a request, and takes away the mark if it is the one with this token. KEYS: its entry, its mark. ARGV: the entry, how
-- long it lasts (ms), the token or ''. Returns 1 if it is kept. Without memory for it the request is not under way any more either; and the
-- entry comes first, since a script that has written something may go beyond the memory that there is.
local kept = redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if ARGV[3] ~= '' and redis.pcall('GET', KEYS[2]) == ARGV[3] then
    redis.call('DEL', KEYS[2])
end
if kept.err then
    return 0
end
return 1
