// What the driver itself found wrong, and no database shows.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "rig/order_client.hpp"
#include "rig/order_plan.hpp"
#include "rig/process.hpp"
#include "rig/signals.hpp"
#include "rig/verdict.hpp"

namespace skald::rig {

/// The number of offenders, with the first few as examples. None: the check has passed.
finding found(std::string name, std::vector<std::string> const& offenders);

/// What the clients saw: orders never accepted, responses that broke the contract.
std::vector<finding> found_by_clients(order_plan const& plan, std::vector<order_record> const& records);

/// SIGTERM to all; each must end with exit code 0 within `patience`. What still runs then is killed.
finding end_in_order(std::vector<std::unique_ptr<process>> const& services, signals const& interruptions,
                     std::chrono::seconds patience);

}  // namespace skald::rig
