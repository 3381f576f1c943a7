// The order example in the test kit: for what a user could say about a saga too.
#pragma once

#include "support/shop_effects.hpp"
#include "testing/shop.hpp"

#include <skald/testing.hpp>

#include <chrono>
#include <string>

namespace skald::test {

/// One harness for all of these tests, rewound for each. A step is tried three times with no wait in between.
class kit_shop
{
public:
    kit_shop() { kit().rewind(); }

    static testing::harness& kit()
    {
        static auto& made = furnished();
        return made;
    }

    static void order(std::string const& key, int quantity = 1, std::int64_t cents = 100,
                      std::chrono::milliseconds deadline = {})
    {
        kit().start(order_saga::place_order, order_saga::order{"o-" + key, "ann", "pen", quantity, cents},
                    {.key = key, .deadline = deadline});
    }

    /// Processes what comes before the delivery of that name.
    static void deliver_up_to(std::string const& name)
    {
        while (kit().waiting().at(0).name != name) kit().deliver_next();
    }

    static std::string rows(std::string const& service, std::string const& sql)
    {
        std::string text;
        for (auto const& row : kit().ask(service, sql)) {
            if (!text.empty()) text += '\n';
            text += row;
        }
        for (auto at = text.find(" | "); at != std::string::npos; at = text.find(" | ", at)) text.replace(at, 3, "|");
        return text;
    }

    static std::string effects() { return shop_effects(rows); }

    static bool nothing_is_parked()
    {
        for (auto const* service : {"orders", "payments", "shipping"})
            if (!kit().ask(service, "SELECT FROM skald.parked").empty()) return false;
        return true;
    }

private:
    static testing::harness& furnished()
    {
        using namespace order_saga;
        static testing::harness made;
        kit_test::furnish(made);
        step_options const at_once{.retry = {.attempts_max = 3, .first = {}, .longest = {}}};
        service orders{"orders"}, payments{"payments"}, shipping{"shipping"};
        orders.host(place_order, order_saga::steps::create_order, create_order{}, at_once)
            .host(place_order, order_saga::steps::confirm_order, confirm_order{}, at_once);
        payments.host(place_order, order_saga::steps::charge_payment, charge_payment{}, at_once);
        shipping.host(place_order, order_saga::steps::arrange_shipping, arrange_shipping{}, at_once);
        return made.add(std::move(orders)).add(std::move(payments)).add(std::move(shipping));
    }
};

}  // namespace skald::test
