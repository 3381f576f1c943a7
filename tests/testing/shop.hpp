// The order example in a harness, with one customer who has money and one thing in stock.
#pragma once

#include "order_tables.hpp"

#include "examples/order_saga/order_steps.hpp"
#include "examples/order_saga/payment_steps.hpp"
#include "examples/order_saga/shipping_steps.hpp"

#include <skald/testing.hpp>

#include <memory>
#include <string>

namespace kit_test {

using namespace order_saga;

/// With its tables, and no step yet.
inline void furnish(skald::testing::harness& shop)
{
    shop.migrate("orders", "0001_orders", tables::orders);
    shop.migrate("payments", "0001_payments", tables::payments);
    shop.migrate("shipping", "0001_shipping", tables::shipping);
    shop.given("payments", "INSERT INTO wallet VALUES ('ann', 1000)");
    shop.given("shipping", "INSERT INTO stock VALUES ('pen', 5)");
}

inline std::unique_ptr<skald::testing::harness> make_shop()
{
    auto shop = std::make_unique<skald::testing::harness>();
    furnish(*shop);
    shop->host(place_order, steps::create_order, create_order{});
    shop->host(place_order, steps::charge_payment, charge_payment{});
    shop->host(place_order, steps::arrange_shipping, arrange_shipping{});
    shop->host(place_order, steps::confirm_order, confirm_order{});
    return shop;
}

inline order pen()
{
    return {"o-1", "ann", "pen", 1, 100};
}

}  // namespace kit_test
