// Everything that is decided before the first order: who orders what, which requests are sent twice, what is in the
// wallets and on the shelves, and when a service is killed. The same seed makes the same plan.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace skald::rig {

using random_source = std::mt19937_64;

/// A whole number from `low` to `high`, both included.
template <typename Number>
Number pick(random_source& random, Number low, Number high)
{
    return std::uniform_int_distribution<Number>{low, high}(random);
}

inline constexpr std::size_t service_count = 3;
inline constexpr std::array<std::string_view, service_count> service_names{"orders", "payments", "shipping"};
inline constexpr std::size_t orders = 0, payments = 1, shipping = 2;  // in service_names

/// When a request is sent a second time.
enum class again {
    never,
    at_once,        // on two connections at the same time
    soon,           // when the same client has sent a few other orders
    after_the_end,  // when every saga has ended
};

struct planned_order
{
    std::string key;
    std::string customer;
    std::string sku;
    int quantity{};
    std::int64_t cents{};
    again sent_again{again::never};
};

struct planned_kill
{
    std::size_t service{};  // an index into service_names
    int accepted{};         // strikes as soon as this many orders have been accepted
    std::chrono::milliseconds down_for{};
};

struct order_plan
{
    std::vector<planned_order> orders;
    std::map<std::string, std::int64_t> wallets;  // customer -> cents
    std::map<std::string, std::int64_t> stock;    // sku -> free pieces
    std::vector<planned_kill> kills;              // each service at least once, in the order in which they strike
};

order_plan make_plan(int order_count, std::uint64_t seed);

/// Where a service dies, and for how long, once all orders are in and their sagas are still running.
planned_kill late_kill(std::uint64_t seed);

}  // namespace skald::rig
