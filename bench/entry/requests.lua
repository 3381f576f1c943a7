-- wrk's requests: `fresh`, each with a key of its own, or `replay`, over the keys of a set that `fill` has asked for before.
-- KEYS is how many keys the set has; RUN makes the keys of one run its own.
local load, keys, run = os.getenv("LOAD"), tonumber(os.getenv("KEYS")), os.getenv("RUN")
local threads = {}

function setup(thread)
   table.insert(threads, thread)
   thread:set("number", #threads)
end

-- From here on in each thread, which has its own globals.
sent, right, wrong, last_wrong = 0, 0, 0, "none"

function request()
   sent = sent + 1
   local key = load == "fresh" and run .. "-" .. number .. "-" .. sent or "set-" .. sent % keys
   return wrk.format("POST", "/rows", {["Content-Type"] = "application/json", ["Idempotency-Key"] = key}, '{"n":1}')
end

-- Only what was answered as it should be counts. A filling load that goes round meets its own keys again.
function response(status, headers, body)
   local is_replay = headers["Idempotency-Replayed"] == "true"
   if status == 201 and (load == "fill" or is_replay == (load == "replay")) then right = right + 1
   else wrong, last_wrong = wrong + 1, status .. " " .. body end
end

function done(summary, latency)
   local errors = summary.errors
   local last_wrong
   local right, wrong = 0, errors.connect + errors.read + errors.write + errors.timeout
   for _, thread in ipairs(threads) do
      right = right + thread:get("right")
      wrong = wrong + thread:get("wrong")
      last_wrong = thread:get("last_wrong")
   end
   io.write("LAST WRONG ", last_wrong, "\n")
   io.write(string.format("FIGURES %.1f %d %.2f %.2f\n", right / (summary.duration / 1e6), wrong,
                          latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
