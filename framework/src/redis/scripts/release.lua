-- Takes away the mark KEYS[1] if it is the one with the token ARGV[1]: by now it may be another request's.
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
