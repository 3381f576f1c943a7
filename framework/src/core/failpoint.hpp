// Named places in the protocol at which a test may kill, stop or disturb the process.
//
// SKALD_FAILPOINT("step.committed"); marks one. Its name is checked at compile time in every build; it generates code
// only in a build with -DSKALD_FAILPOINTS=ON, which is for tests and can't be installed. There the environment variable
// SKALD_FAILPOINTS (failpoint.cpp) says what happens at a point. Each use is one whole line, so that a script can
// remove it: tests/compile/same_code.cmake shows that nothing else changes then.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace skald::core {

/// Which socket the action `reset` shuts down at a point.
enum class fault_socket {
    postgres,   // the thread's database connection, both ways: what is sent next does not arrive
    reply,      // the same, for reading only: what is sent next arrives, and its reply is lost
    publisher,  // the broker connection that the thread publishes on: the publish loop's
    consumer,   // the broker connection that deliveries come from
    client,     // the HTTP connection on which a response is being sent
};

struct failpoint
{
    std::string_view name;
    fault_socket socket;
    std::string_view stands_for;  // the protocol's own numbers: entry H, relay R, consumer C, saga S
    std::string_view afterwards;  // what may be observed after a crash here
};

/// All points. docs/guarantees.md has a row for each, and the crash matrix a run.
inline constexpr std::array failpoints{
    failpoint{"entry.claimed", fault_socket::postgres, "H05 H06",
              "nothing of the request remains; the client has no response, and retries"},
    failpoint{"entry.handler_ran", fault_socket::postgres, "H07",
              "nothing of the request remains; the client has no response, and retries"},
    failpoint{"entry.before_commit", fault_socket::postgres, "H08 H09",
              "nothing of the request remains; the client has no response, and retries"},
    failpoint{"entry.committed", fault_socket::postgres, "H12 H14",
              "the saga is accepted; the client has no response, retries, and gets the stored one"},
    failpoint{"http.answering", fault_socket::client, "H15",
              "the saga is accepted; the client has no response, or a part of it, retries, and gets the stored one"},
    failpoint{"http.answered", fault_socket::client, "H16", "the client has its response, and the outbox the message"},
    failpoint{"store.committing", fault_socket::postgres, "H10 C09",
              "in doubt on this side; nothing was committed, and the next try finds that out"},
    failpoint{"store.commit_sent", fault_socket::reply, "H11 H12 H13 C10 C11",
              "in doubt on this side; committed or not, and the next try finds out which"},
    failpoint{"relay.taken", fault_socket::publisher, "R01", "the rows are free again, for any relay"},
    failpoint{"relay.sending", fault_socket::publisher, "R02 R03",
              "a part of the batch is at the broker, and the whole batch is sent again"},
    failpoint{"relay.sent", fault_socket::publisher, "R04 R05 R06 R07",
              "the batch may be at the broker, and is sent again"},
    failpoint{"relay.returned", fault_socket::publisher, "R08",
              "the message is still in the outbox, and is sent again"},
    failpoint{"relay.confirmed", fault_socket::postgres, "R09", "the batch is at the broker, and is sent again"},
    failpoint{"relay.deleting", fault_socket::reply, "R10",
              "the batch is at the broker; its rows are gone, or sent again"},
    failpoint{"relay.deleted", fault_socket::postgres, "R11", "the batch is at the broker, and out of the outbox"},
    failpoint{"relay.deferred", fault_socket::postgres, "R08", "the row stays with its reason, and is sent later"},
    failpoint{"memory.taken", fault_socket::publisher, "R01", "not sent from memory; its row comes due, and is sent"},
    failpoint{"memory.confirmed", fault_socket::publisher, "R09",
              "the messages are at the broker; their rows come due, and are sent again"},
    failpoint{"memory.deleting", fault_socket::reply, "R10",
              "the messages are at the broker; their rows are gone, or come due and are sent again"},
    failpoint{"memory.deleted", fault_socket::postgres, "R11", "the messages are at the broker, and out of the outbox"},
    failpoint{"consumer.delivered", fault_socket::consumer, "C01", "the broker delivers it again"},
    failpoint{"consumer.parsed", fault_socket::postgres, "C02 C04", "the broker delivers it again"},
    failpoint{"consumer.acked", fault_socket::consumer, "C13 C14",
              "acked; or delivered again, and found done by the guard"},
    failpoint{"step.claimed", fault_socket::postgres, "C05", "nothing of the step remains; delivered again"},
    failpoint{"step.ran", fault_socket::postgres, "C06", "nothing of the step remains; delivered again"},
    failpoint{"step.before_commit", fault_socket::postgres, "C07 C08 S03 S04",
              "nothing of the step remains; delivered again"},
    failpoint{"step.committed", fault_socket::consumer, "C12",
              "the step, its record and its messages are there; delivered again, and found done by the guard"},
    failpoint{"step.acked", fault_socket::postgres, "C12 C13",
              "the step is done; acked, or delivered again and found done by the guard"},
    failpoint{"step.duplicate", fault_socket::consumer, "C12", "delivered again, and found done again"},
    failpoint{"step.rolled_back", fault_socket::postgres, "S01",
              "nothing of the attempt remains, nor a record of it; delivered again, and tried again"},
    failpoint{"step.reclaimed", fault_socket::postgres, "S01 S03",
              "nothing of the attempt remains, nor a record of it; delivered again, and tried again"},
    failpoint{"call.taken", fault_socket::postgres, "X01",
              "taken, and not called; the lease ends, and somebody else asks first"},
    failpoint{"call.calling", fault_socket::postgres, "X02",
              "called or not; the lease ends, and whoever takes over asks first"},
    failpoint{"call.called", fault_socket::postgres, "X03",
              "called, and nothing recorded; the lease ends, and whoever takes over asks first"},
    failpoint{"call.heartbeat", fault_socket::postgres, "X04",
              "the checkpoint is kept; whoever takes over asks first, and goes on from there"},
    failpoint{"call.looking", fault_socket::postgres, "X05", "the lease ends, and somebody else asks again"},
    failpoint{"call.looked", fault_socket::postgres, "X05", "the lease ends, and somebody else asks again"},
    failpoint{"call.settled", fault_socket::postgres, "X06", "the end of the call or the wait is recorded, once"},
    failpoint{"wait.taken", fault_socket::postgres, "X07", "still started; somebody else takes it when the lease ends"},
    failpoint{"signal.taking", fault_socket::reply, "X08",
              "kept or not; delivered again, and kept once: the step goes on once"},
    failpoint{"signal.taken", fault_socket::consumer, "X08",
              "kept, and its step is due; delivered again, and nothing changes"},
    failpoint{"delivery.parked", fault_socket::consumer, "C03", "parked once; delivered again, and still parked once"},
    failpoint{"progress.noted", fault_socket::consumer, "S04", "recorded; delivered again, and nothing changes"},
    failpoint{"command.requesting", fault_socket::reply, "S01",
              "requested or not, and the operator has no reply; requested again, it is taken or refused"},
    failpoint{"command.requested", fault_socket::postgres, "S01",
              "the home has taken it, and its messages are in the outbox; requested again, it is taken or refused"},
    failpoint{"command.read", fault_socket::postgres, "S01", "nothing of the command remains here; delivered again"},
    failpoint{"command.taking", fault_socket::reply, "S01", "taken or not; delivered again, and taken once"},
    failpoint{"command.taken", fault_socket::consumer, "S01",
              "taken, and what waited for it is due; delivered again, and nothing changes"},
    failpoint{"purge.asked", fault_socket::postgres, "S05",
              "no service was asked to expire anything; the next batch asks"},
    failpoint{"purge.expired", fault_socket::postgres, "S05",
              "the service still has its records; the next batch deletes them"},
    failpoint{"purge.collected", fault_socket::postgres, "S05",
              "the home still has the saga with all its records; the next batch deletes them"},
    failpoint{"purge.committing", fault_socket::reply, "S05",
              "the batch is done, or nothing of it; the next one finds what is left"},
    failpoint{"purge.committed", fault_socket::postgres, "S05",
              "what the batch deleted is gone, and its requests and replies are in the outbox"},
    failpoint{"expire.recorded", fault_socket::consumer, "S05", "recorded; delivered again, and nothing changes"},
    failpoint{"expired.recorded", fault_socket::consumer, "S05", "recorded; delivered again, and nothing changes"},
};

consteval bool is_failpoint(std::string_view name)
{
    for (auto const& one : failpoints)
        if (one.name == name) return true;
    return false;
}

consteval std::size_t number_of_failpoint(std::string_view name)
{
    std::size_t number = 0;
    while (failpoints[number].name != name) ++number;
    return number;
}

#if SKALD_FAILPOINTS

inline constexpr bool has_failpoints = true;

/// Does what is armed for this hit of the point, if anything is. Throws std::runtime_error if that is the action.
/// Threads: this, and every function below, may be called from any thread.
void pass_failpoint(std::size_t number);
void record_socket(fault_socket which, int descriptor) noexcept;

/// Why the value is not a valid program for SKALD_FAILPOINTS; empty if it is valid.
std::string refuse_failpoint_setting(std::string_view variable, std::string_view value);

#define SKALD_FAILPOINT(name)                                                                                          \
    do {                                                                                                               \
        static_assert(::skald::core::is_failpoint(name), "no such failpoint: core/failpoint.hpp lists them all");      \
        ::skald::core::pass_failpoint(::skald::core::number_of_failpoint(name));                                       \
    } while (false)
/// A point that is passed only if `condition` holds.
#define SKALD_FAILPOINT_IF(condition, name)                                                                            \
    do {                                                                                                               \
        if (condition) SKALD_FAILPOINT(name);                                                                          \
    } while (false)
/// Records which socket is in use now, for the action `reset`.
#define SKALD_FAILPOINT_SOCKET(which, descriptor)                                                                      \
    ::skald::core::record_socket(::skald::core::fault_socket::which, descriptor)

#else

inline constexpr bool has_failpoints = false;

inline std::string refuse_failpoint_setting(std::string_view, std::string_view)
{
    return "works only in a build for tests, made with -DSKALD_FAILPOINTS=ON";
}

#define SKALD_FAILPOINT(name)                                                                                          \
    static_assert(::skald::core::is_failpoint(name), "no such failpoint: core/failpoint.hpp lists them all")
#define SKALD_FAILPOINT_IF(condition, name) SKALD_FAILPOINT(name)
#define SKALD_FAILPOINT_SOCKET(which, descriptor) static_assert(true)

#endif

/// The environment variables that only a build with failpoints accepts.
constexpr bool is_failpoint_setting(std::string_view variable)
{
    return variable == "SKALD_FAILPOINTS" || variable == "SKALD_FAILPOINT_TRACE";
}

}  // namespace skald::core
