// What follows when a transaction of steps did not commit. Pure: the one place that decides it.
#pragma once

#include "ports/fault.hpp"

#include <chrono>
#include <cstddef>
#include <string_view>

namespace skald::runtime {

enum class failure {
    member_ended,       // a step's run did not end in `done`: rejected, snoozed, failed
    contended,          // a deadlock, a serialization failure
    lock_timeout,       // another transaction held a lock for longer than a statement waits
    in_flight,          // another transaction holds the key of one of several: nothing has run
    suspect,            // the server or the connection has a problem, or the step makes it look so
    unavailable,        // no connection, or a statement of ours could not be run now: no member caused it
    connection_lost,    // after the claim, and rolled back with it: maybe because of the step
    in_doubt,           // the connection was lost at COMMIT: the guard finds out
    silent,             // one of those two, in a transaction older than a session may be silent in one
    transaction_ended,  // a step ran COMMIT or ROLLBACK itself
    refused,            // COMMIT failed: a constraint that is checked there, or data that the database can't hold
};

enum class reaction {
    record,        // what is known of how the member ended, as its attempt, in a second transaction
    guard_each,    // run all again, each under a savepoint, so that only that one is undone
    each_alone,    // each in a transaction of its own
    finish_first,  // run again, and run what the step has deferred until COMMIT apart from what Skald writes
    again,         // later, in smaller transactions if there are several; it costs no attempt
};

struct situation
{
    std::size_t members{1};
    int rolled_back{};    // how often in a row, before this time
    bool is_recording{};  // the transaction that failed was to record an end that is already known
    int lost{};           // how often its connection was lost while it was alone, before this time
    bool finished{};      // nothing of the step's was left to run when it was refused
    int returns{};        // how often its delivery came back
    bool took_long{};     // the members ran for `long_run`
};

/// Where a member has run for so long, the others of its transaction need not wait for it again.
inline constexpr std::chrono::seconds long_run{5};

/// How often in a row a delivery may be rolled back before that counts as an attempt: whatever the server says, what
/// never gets through must become visible in the end. Far more than a deadlock needs, since the step's limit has shrunk
/// by then.
inline constexpr int contended_max = 50;
inline constexpr int lock_timeouts_max = 250;  // most of them of a tenth of a second
inline constexpr int suspect_max = 8;
inline constexpr int lost_max = 5;

/// `lost` is forgotten when the process ends. So that a step that loses its connection each time is counted where
/// processes end often too, and not parked for having come back, that many returns count as one.
inline constexpr int returns_per_loss = 8;

reaction react(failure what, situation const& s);

/// What a fault means for the transaction in which it occurred; `is_claimed`: after its claim.
failure failure_of(ports::fault const& met, bool is_claimed);

std::string_view name_of(failure what);

}  // namespace skald::runtime
