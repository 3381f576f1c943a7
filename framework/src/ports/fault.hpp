// Faults of a port, classified once, in the adapter that met them (style rule 11).
#pragma once

#include <stdexcept>
#include <string>

namespace skald::ports {

enum class fault_kind {
    contended,          // rolled back because of a conflict with another transaction: deadlock, serialization
    lock_timeout,       // rolled back because another transaction held a lock for longer than this one may wait
    retry_at_once,      // rolled back because of a problem in the server, or a stale plan
    unavailable,        // rolled back because one of Skald's own statements can't run now: never the step's fault
    connection_lost,    // rolled back, and the connection is gone: start again on a new one
    in_doubt,           // lost while committing, outcome unknown; go through the guard again on a new connection
    transaction_ended,  // the step ended the transaction itself: what it wrote may be partly there
    broken,             // the step or its SQL is at fault: counts as an attempt
};

struct fault : std::runtime_error
{
    fault(fault_kind k, std::string const& what, bool suspect = false)
        : std::runtime_error{what}, kind{k}, connection_is_suspect{suspect}
    {}

    fault_kind kind;
    bool connection_is_suspect;  // a new one may work, though this one is still open
    bool outlasted_silence{};    // lost when its transaction had exceeded the server's idle-in-transaction limit
};

}  // namespace skald::ports
