// The order example as it is shipped, on rows that many orders share, or none do.
#pragma once

#include "phase.hpp"

#include "rig/order_plan.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace skald_bench {

struct shop_request
{
    implementation who{implementation::framework};
    int processes{1};  // of each service
    int customers{}, skus{};
    bool shared{true};  // otherwise each order has a customer and a sku of its own, whatever the two numbers say
    std::string label;
};

/// Of one service's database, from before its processes started until they had ended.
struct contention_counts
{
    std::int64_t commits{}, rollbacks{}, deadlocks{};
    std::int64_t tried_again{};  // records with more than one attempt
};

struct shop_figures
{
    shop_request asked;
    std::int64_t sagas{}, declined{}, broke{};
    std::int64_t ended{};  // less than all: the limit came first
    double seconds{};      // from the first start to the last end, or the limit
    double per_second{};
    std::array<contention_counts, 3> contentions;  // by service
    std::int64_t first_deadlocks{};                // those that the servers reported in the first second
    cpu_split cpu;
    std::map<std::string, double> peak_rss_mib;
};

/// The orders: the same for equal requests, except for the keys.
skald::rig::order_plan plan_shop(options const& chosen, shop_request const& asked);

/// On databases with empty tables. Throws std::runtime_error if a saga that has ended did not end as it should, money
/// or stock does not add up, or a step happened twice.
shop_figures run_shop(bench const& b, bench_databases& databases, shop_request const& asked);

}  // namespace skald_bench
