// What follows from a transaction of steps that did not commit. Pure: the one place that decides it.
#pragma once

#include "ports/fault.hpp"

#include <cstddef>
#include <string_view>

namespace skald::runtime {

enum class failure {
    member_ended,       // a step's run ended otherwise than done: rejected, snoozed, failed
    contended,          // a deadlock, a serialization failure
    lock_timeout,       // another transaction held a lock for longer than a statement waits
    suspect,            // the server or the connection has a problem, or the step makes it look so
    unavailable,        // no connection, or a statement of ours could not be done now: nobody's doing here
    connection_lost,    // after the claim, and rolled back with it: maybe the step's doing
    in_doubt,           // the connection was lost at COMMIT: the guard finds out
    silent,             // either of the two, of a transaction that was older than a session may be silent in one
    transaction_ended,  // a step ran COMMIT or ROLLBACK itself
    refused,            // COMMIT failed: a constraint that is checked there, or data that the database can't hold
};

enum class reaction {
    record,        // in a second transaction: what is known of the member's end, as its attempt
    guard_each,    // run all again, each under a savepoint, so that the one is undone alone
    each_alone,    // each in a transaction of its own
    finish_first,  // run again, and run what the step has put off until COMMIT apart from what Skald writes
    again,         // later, in smaller transactions if there are several; it costs no attempt
};

struct situation
{
    std::size_t members{1};
    int rolled_back{};    // how often in a row it was, before this time
    bool is_recording{};  // the transaction that failed was to record an end that is known already
    int lost{};           // how often its connection was lost, before this time, while it was alone
    bool finished{};      // nothing of the step's was left to run when it was refused
};

/// How often in a row a delivery may be rolled back before that counts as an attempt: whatever the server says, what
/// never gets through must be seen in the end. Far beyond what a deadlock needs, since the step's limit has shrunk
/// by then.
inline constexpr int contended_max = 50;
inline constexpr int suspect_max = 8;
inline constexpr int lost_max = 5;

reaction react(failure what, situation const& s);

/// What a fault means for the transaction that met it; `is_claimed`: after its claim.
failure failure_of(ports::fault const& met, bool is_claimed);

std::string_view name_of(failure what);

}  // namespace skald::runtime
