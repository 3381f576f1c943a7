#include "shop.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace kit_test;
using namespace std::chrono_literals;
using skald::testing::crash_point;
using skald::testing::rows;

TEST_CASE("a saga runs to its end, and everything about it can be asked")
{
    auto const shop = make_shop();
    auto const key = shop->start(place_order, pen(), {.key = "k"});
    CHECK(shop->saga_is(key, "running"));
    CHECK(shop->deliver_all() > 4);
    CHECK(shop->saga_is(key, "completed"));
    CHECK(shop->ask("payments", "SELECT cents FROM wallet") == rows{"900"});
}
