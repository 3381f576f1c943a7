// What is ordered in the shop: how many orders compensate, and who shares a row with whom.
#include "shop.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

using namespace skald_bench;

namespace {

options shop_of(int sagas)
{
    options chosen;
    chosen.sagas = sagas;
    return chosen;
}

shop_request shared_by(int customers, int skus)
{
    shop_request asked;
    asked.customers = customers;
    asked.skus = skus;
    return asked;
}

std::map<std::string, int> orders_by_customer(skald::rig::order_plan const& plan)
{
    std::map<std::string, int> counted;
    for (auto const& o : plan.orders) ++counted[o.customer];
    return counted;
}

}  // namespace

TEST_CASE("of each hundred orders in a row as many are out of stock, and as many not covered, as was asked for")
{
    auto chosen = shop_of(300);
    chosen.declined_percent = 33;
    chosen.broke_percent = 10;
    auto const plan = plan_shop(chosen, shared_by(5, 4));
    for (std::size_t from = 0; from < 300; from += 100) {
        int declined = 0, broke = 0, both = 0;
        for (auto i = from; i < from + 100; ++i) {
            auto const& o = plan.orders[i];
            bool const no_stock = o.quantity > plan.stock.at(o.sku), no_money = o.cents > plan.wallets.at(o.customer);
            declined += no_stock ? 1 : 0;
            broke += no_money ? 1 : 0;
            both += no_stock && no_money ? 1 : 0;
        }
        CHECK(declined == 33);
        CHECK(broke == 10);
        CHECK(both == 0);
    }
}

TEST_CASE("the orders that are served do not use up a wallet or a stock")
{
    auto const plan = plan_shop(shop_of(1'000), shared_by(1, 1));
    std::int64_t cents = 0, pieces = 0;
    for (auto const& o : plan.orders) cents += o.cents, pieces += o.quantity;
    CHECK(cents <= plan.wallets.at("customer-1"));
    CHECK(pieces <= plan.stock.at("sku-1"));
}

TEST_CASE("rows that nobody shares are as many as there are orders")
{
    shop_request alone;
    alone.shared = false;
    auto const plan = plan_shop(shop_of(200), alone);
    CHECK(orders_by_customer(plan).size() == 200);
    CHECK(plan.wallets.size() == 200);
    CHECK(plan.stock.size() == 200);
}

TEST_CASE("everybody who asks for the same gets the same orders, under other keys")
{
    auto const first = plan_shop(shop_of(100), shared_by(50, 40)), second = plan_shop(shop_of(100), shared_by(50, 40));
    for (std::size_t i = 0; i < 100; ++i) {
        CHECK(first.orders[i].customer == second.orders[i].customer);
        CHECK(first.orders[i].sku == second.orders[i].sku);
        CHECK(first.orders[i].key != second.orders[i].key);
    }
}

TEST_CASE("with an exponent of one the first customer orders about ten times as often as the tenth")
{
    auto chosen = shop_of(50'000);
    CHECK(orders_by_customer(plan_shop(chosen, shared_by(10, 1)))["customer-1"] == doctest::Approx(5'000).epsilon(0.1));
    chosen.zipf = 1;
    auto counted = orders_by_customer(plan_shop(chosen, shared_by(10, 1)));
    CHECK(counted["customer-1"] == doctest::Approx(10 * counted["customer-10"]).epsilon(0.1));
}
