#include "rig/order_plan.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace skald::rig {
namespace {

using namespace std::chrono_literals;

// About one order in eight is from a customer without enough money, and another one in eight is for a sku out of stock.
// Three in four of those fail, so that about 80 % complete, 10 % are declined and 10 % are out of stock.
constexpr int scarce_percent = 13;
constexpr int scarce_supply_percent = 25;

constexpr int price_min_cents = 199;
constexpr int price_max_cents = 9'999;
constexpr int quantity_max = 4;

constexpr int orders_a_round = 2'000;  // a round kills each service once
constexpr int rounds_max = 10;

/// Unique not by construction but by size: 122 random bits, in the form of a UUIDv4.
std::string random_uuid(random_source& random)
{
    std::uint64_t const high = (random() & 0xffff'ffff'ffff'0fff) | 0x4000;
    std::uint64_t const low = (random() & 0x3fff'ffff'ffff'ffff) | 0x8000'0000'0000'0000;
    return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff, high & 0xffff,
                       low >> 48, low & 0xffff'ffff'ffff);
}

struct market
{
    int customers;
    int poor_customers;
    int skus;
    int scarce_skus;
    std::map<std::string, std::int64_t> prices;

    market(int order_count, random_source& random)
        : customers{std::clamp(order_count / 4, 4, 5'000)}, poor_customers{std::clamp(order_count / 40, 1, 500)},
          skus{std::clamp(order_count / 10, 4, 400)}, scarce_skus{std::clamp(order_count / 40, 1, 40)}
    {
        for (int i = 1; i <= skus; ++i)
            prices[fmt::format("sku-{}", i)] = pick(random, price_min_cents, price_max_cents);
        for (int i = 1; i <= scarce_skus; ++i)
            prices[fmt::format("scarce-sku-{}", i)] = pick(random, price_min_cents, price_max_cents);
    }
};

planned_order random_order(market const& shop, random_source& random)
{
    int const luck = pick(random, 1, 100);
    bool const poor = luck <= scarce_percent;
    bool const scarce = luck > 100 - scarce_percent;
    planned_order order;
    order.key = random_uuid(random);
    order.customer = poor ? fmt::format("poor-customer-{}", pick(random, 1, shop.poor_customers))
                          : fmt::format("customer-{}", pick(random, 1, shop.customers));
    order.sku = scarce ? fmt::format("scarce-sku-{}", pick(random, 1, shop.scarce_skus))
                       : fmt::format("sku-{}", pick(random, 1, shop.skus));
    order.quantity = pick(random, 1, quantity_max);
    order.cents = order.quantity * shop.prices.at(order.sku);
    return order;
}

/// Gives each customer and sku what all of their orders need, and the poor and the scarce only a part of it.
void supply(order_plan& plan)
{
    for (auto const& order : plan.orders) {
        plan.wallets[order.customer] += order.cents;
        plan.stock[order.sku] += order.quantity;
    }
    for (auto& [customer, cents] : plan.wallets)
        if (customer.starts_with("poor-")) cents = cents * scarce_supply_percent / 100;
    for (auto& [sku, free] : plan.stock)
        if (sku.starts_with("scarce-")) free = free * scarce_supply_percent / 100;
}

/// One third of the requests, rounded up, is sent twice.
void choose_duplicates(std::vector<planned_order>& orders, random_source& random)
{
    std::vector<std::size_t> places(orders.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::shuffle(places.begin(), places.end(), random);
    places.resize((orders.size() + 2) / 3);
    for (auto const place : places) {
        int const luck = pick(random, 1, 100);
        orders[place].sent_again = luck <= 50 ? again::at_once : luck <= 80 ? again::soon : again::after_the_end;
    }
}

std::chrono::milliseconds random_outage(random_source& random)
{
    return std::chrono::milliseconds{pick(random, 200, 1'500)};
}

/// In each round each service once, in random order.
std::vector<planned_kill> choose_kills(int order_count, random_source& random)
{
    int const rounds = std::clamp(order_count / orders_a_round, 1, rounds_max);
    std::array<std::size_t, service_count> victims{0, 1, 2};
    std::vector<planned_kill> kills;
    for (int round = 0; round < rounds; ++round) {
        std::shuffle(victims.begin(), victims.end(), random);
        int percent = 0;  // of the round
        for (auto const victim : victims) {
            percent += pick(random, 10, 30);
            auto const at = std::int64_t{order_count} * (round * 100 + percent) / (rounds * 100);
            kills.push_back({victim, std::max(1, static_cast<int>(at)), random_outage(random)});
        }
    }
    return kills;
}

}  // namespace

order_plan make_plan(int order_count, std::uint64_t seed)
{
    random_source random{seed};
    market const shop{order_count, random};
    order_plan plan;
    plan.orders.reserve(static_cast<std::size_t>(order_count));
    for (int i = 0; i < order_count; ++i) plan.orders.push_back(random_order(shop, random));
    supply(plan);
    choose_duplicates(plan.orders, random);
    plan.kills = choose_kills(order_count, random);
    return plan;
}

planned_kill late_kill(std::uint64_t seed)
{
    random_source random{~seed};
    std::size_t const victim = pick(random, std::size_t{0}, service_count - 1);
    return {victim, 0, random_outage(random)};
}

}  // namespace skald::rig
