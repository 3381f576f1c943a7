// The order example in a harness, with one customer who has money and one thing in stock.
#pragma once

#include "examples/order_saga/services.hpp"

#include <skald/testing.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace kit_test {

using namespace order_saga;

/// A service without steps.
inline skald::service only_tables(std::string name, std::string migration, std::string_view sql)
{
    skald::service s{std::move(name)};
    s.migrate(std::move(migration), sql);
    return s;
}

inline void give_rows(skald::testing::harness& shop)
{
    shop.given("payments", "INSERT INTO wallet VALUES ('ann', 1000)");
    shop.given("shipping", "INSERT INTO stock VALUES ('pen', 5)");
}

/// With its tables, and no step yet.
inline void furnish(skald::testing::harness& shop)
{
    shop.add(only_tables("orders", "0001_orders", tables::orders))
        .add(only_tables("payments", "0001_payments", tables::payments))
        .add(only_tables("shipping", "0001_shipping", tables::shipping));
    give_rows(shop);
}

/// The step `charge-payment` of that saga, and nothing else.
template <class Definition, class Charge>
skald::service charging_with(Definition const& saga, Charge charge)
{
    skald::service s{"payments"};
    s.host(saga, steps::charge_payment, std::move(charge));
    return s;
}

/// The step `arrange-shipping` of that saga, as in the example, and nothing else.
template <class Definition>
skald::service arranging(Definition const& saga)
{
    skald::service s{"shipping"};
    s.host(saga, steps::arrange_shipping, arrange_shipping{});
    return s;
}

inline std::unique_ptr<skald::testing::harness> make_shop()
{
    auto shop = std::make_unique<skald::testing::harness>();
    shop->add(orders).add(payments).add(shipping);
    give_rows(*shop);
    return shop;
}

inline bool has(std::string const& text, std::string const& part)
{
    return text.find(part) != std::string::npos;
}

inline order pen()
{
    return {"o-1", "ann", "pen", 1, 100};
}

}  // namespace kit_test
