// Faults of a port, classified once, in the adapter that met them (style rule 11).
#pragma once

#include <stdexcept>
#include <string>

namespace skald::ports {

enum class fault_kind {
    contended,          // rolled back, since another transaction was in the way: deadlock, serialization
    lock_timeout,       // rolled back, since another transaction held a lock for longer than this one may wait
    retry_at_once,      // rolled back for a problem of the server's, or a plan that went stale
    unavailable,        // rolled back, since a statement of Skald's own could not be done now: never the step's doing
    connection_lost,    // rolled back, and the connection with it: start again on a new one
    in_doubt,           // lost while committing: nobody knows; go through the guard again on a new connection
    transaction_ended,  // the step ended the transaction itself: what it wrote may be half there
    broken,             // the step or its SQL is at fault: counts as an attempt
};

struct fault : std::runtime_error
{
    fault(fault_kind k, std::string const& what, bool suspect = false)
        : std::runtime_error{what}, kind{k}, connection_is_suspect{suspect}
    {}

    fault_kind kind;
    bool connection_is_suspect;  // a new one may do better, though this one is still open
    bool outlasted_silence{};    // lost when its transaction was older than the server lets a session be silent in one
};

}  // namespace skald::ports
