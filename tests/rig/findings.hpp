// What the driver itself found wrong, and no database knows of.
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

/// So many offenders, the first few of them as examples. None: the check has passed.
finding found(std::string name, std::vector<std::string> const& offenders);

/// What the clients saw: orders never accepted, answers that broke the contract.
std::vector<finding> found_by_clients(order_plan const& plan, std::vector<order_record> const& records);

/// SIGTERM to all; each must end with exit code 0 before `patience` is over. What still runs then is killed.
finding end_in_order(std::vector<std::unique_ptr<process>> const& services, signals const& interruptions,
                     std::chrono::seconds patience);

}  // namespace skald::rig
