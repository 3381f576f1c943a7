// What the driver itself found wrong, and no database knows of.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "order_client.hpp"
#include "order_plan.hpp"
#include "service_process.hpp"
#include "signals.hpp"
#include "verdict.hpp"

namespace order_demo {

/// So many offenders, the first few of them as examples. None: the check has passed.
finding found(std::string name, std::vector<std::string> const& offenders);

/// What the clients saw: orders never accepted, answers that broke the contract.
std::vector<finding> found_by_clients(order_plan const& plan, std::vector<order_record> const& records);

/// SIGTERM to all; each must end with exit code 0 before `patience` is over. What still runs then is killed.
finding end_in_order(std::vector<std::unique_ptr<service_process>> const& services, signals const& interruptions,
                     std::chrono::seconds patience);

}  // namespace order_demo
