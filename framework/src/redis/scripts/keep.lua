-- Keeps the response to a request, and takes away the mark if it is the one with this token. KEYS: its entry, its mark. ARGV: the entry, how
-- long it lasts (ms), the token or ''. The mark first: without memory for the entry, the request is not under way any more either.
if ARGV[3] ~= '' and redis.pcall('GET', KEYS[2]) == ARGV[3] then
    redis.call('DEL', KEYS[2])
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
