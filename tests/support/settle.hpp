// One try to process a delivery, as a lane's, with an executor of the test's own.
#pragma once

#include "runtime/executor.hpp"
#include "runtime/registry.hpp"

#include <string_view>

namespace skald::test {

inline ports::fault_kind kind_of(runtime::failure why)
{
    switch (why) {
    case runtime::failure::contended: return ports::fault_kind::contended;
    case runtime::failure::lock_timeout: return ports::fault_kind::lock_timeout;
    case runtime::failure::suspect: return ports::fault_kind::retry_at_once;
    case runtime::failure::unavailable: return ports::fault_kind::unavailable;
    case runtime::failure::connection_lost: return ports::fault_kind::connection_lost;
    case runtime::failure::in_doubt:
    case runtime::failure::silent: return ports::fault_kind::in_doubt;
    case runtime::failure::transaction_ended: return ports::fault_kind::transaction_ended;
    case runtime::failure::member_ended:
    case runtime::failure::refused: break;
    }
    return ports::fault_kind::broken;
}

/// Throws ports::fault if it is not processed.
inline void settle(runtime::executor& lane, std::string_view service, runtime::registry const& steps,
                   ports::delivery const& d)
{
    auto t = runtime::route(d, service, steps);
    auto const result = lane.run({&t, 1});
    if (!result.processed()) throw ports::fault{kind_of(result.not_processed->why), result.not_processed->error};
}

}  // namespace skald::test
