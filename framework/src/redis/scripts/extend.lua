-- Lets the mark KEYS[1] last for ARGV[2] ms from now if it is the one with the token ARGV[1]: by now it may be another request's.
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
