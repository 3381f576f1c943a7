// What follows from a transaction of steps that did not commit. Pure: the one place that decides it.
#pragma once

#include "ports/fault.hpp"

#include <cstddef>
#include <string_view>

namespace skald::runtime {

enum class failure {
    member_ended,       // a step's run ended otherwise than done: rejected, snoozed, failed
    contended,          // a lock was not to be had, a deadlock, a serialization failure
    suspect,            // the server or the connection has a problem, or the step makes it look so
    connection_lost,    // rolled back with the connection
    in_doubt,           // the connection was lost at COMMIT: the guard finds out
    transaction_ended,  // a step ran COMMIT or ROLLBACK itself
    refused,            // a statement of ours failed: most often a constraint that is checked at COMMIT
};

enum class reaction {
    record,      // in a second transaction: what is known of the member's end, as its attempt
    guard_each,  // run all again, each under a savepoint, so that the one is undone alone
    each_alone,  // each in a transaction of its own
    again,       // later, in smaller transactions if there are several; it costs no attempt
};

struct situation
{
    std::size_t members{1};
    int rolled_back{};    // how often in a row it was, before this time
    bool is_recording{};  // the transaction that failed was to record an end that is known already
};

/// How often in a row a delivery may be rolled back before that counts as an attempt: whatever the server says, what
/// never gets through must be seen in the end. Far beyond what a deadlock needs, since the step's limit has shrunk
/// by then.
inline constexpr int contended_max = 50;
inline constexpr int suspect_max = 8;

reaction react(failure what, situation const& s);

/// What a fault means for the transaction that met it.
failure failure_of(ports::fault const& met);

std::string_view name_of(failure what);

}  // namespace skald::runtime
