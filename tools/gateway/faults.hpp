// How the gateway misbehaves on request: one request by its header `Gateway-Fault`, or many by `PUT /faults`.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gateway {

enum class fault_kind {
    none,
    down,           // 503, whatever is asked
    error_before,   // 500, and nothing was done
    die_before,     // SIGKILL, and nothing was done
    slow,           // waits first, then acts and answers
    declined,       // acts, and the answer is no
    error_after,    // acts, and answers 500
    hang_up_after,  // acts, and closes the connection without an answer
    answer_late,    // acts, and answers when the client has gone
    die_after,      // acts, and SIGKILL
};

struct fault
{
    fault_kind kind{};
    std::chrono::milliseconds time{};

    bool operator==(fault const&) const = default;
};

struct unknown_fault : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// "die_after", "slow 300". Throws unknown_fault, with a sentence for whoever asked.
fault read_fault(std::string_view text);

/// The faults of the process. Threads: any.
class fault_plan
{
public:
    using clock = std::chrono::steady_clock;

    /// The body of `PUT /faults`, a JSON object: `fault` as above, for the `next` N requests or a `share` of them, 0 to
    /// 1; without either for all. An empty object ends it. Replaces the plan before. Throws unknown_fault.
    void set(std::string const& body, clock::time_point now);

    /// What befalls the next request. Charges and refunds count; what only reads meets `down`, and no other fault.
    fault take(bool only_reads, clock::time_point now);

private:
    std::mutex mutex_;
    fault planned_;
    std::optional<std::uint64_t> next_;
    double share_{1};
    clock::time_point ends_{};  // of `down`, if it has a time
    std::minstd_rand random_;   // from the same seed each time: the same requests meet it
};

}  // namespace gateway
