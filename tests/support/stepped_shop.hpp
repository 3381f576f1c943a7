// The order saga's services and tables in services that the test steps.
#pragma once

#include "support/shop_effects.hpp"
#include "support/stepped_services.hpp"

#include "examples/order_saga/order_steps.hpp"
#include "examples/order_saga/payment_steps.hpp"
#include "examples/order_saga/shipping_steps.hpp"

namespace skald::test {

class stepped_shop : public stepped_services
{
public:
    stepped_shop() : stepped_services{{"orders", "payments", "shipping"}}
    {
        using namespace order_saga;
        create_tables();
        at("orders").host(place_order, order_saga::steps::create_order, create_order{});
        at("orders").host(place_order, order_saga::steps::confirm_order, confirm_order{});
        at("payments").host(place_order, order_saga::steps::charge_payment, charge_payment{});
        at("shipping").host(place_order, order_saga::steps::arrange_shipping, arrange_shipping{});
    }

    void order(std::string const& key, int quantity = 1, std::int64_t cents = 100)
    {
        start(order_saga::place_order, order_saga::order{"o-" + key, "ann", "pen", quantity, cents}, key);
    }

    /// Starts an order, and steps it until the message for that step waits in its service's queue.
    core::message order_up_to(std::string const& step, std::string const& key = "1");

    /// The home's row of a saga whose messages the test makes itself.
    void note_started(std::string const& key)
    {
        at("orders").db.run("INSERT INTO skald.saga (scope, key, definition, data, itinerary) "
                            "VALUES ('', '" +
                            key + "', 'place-order', '{}', '')");
    }

    std::string effects()
    {
        return shop_effects([this](auto const& name, auto const& sql) { return at(name).db.rows(sql); });
    }

private:
    void create_tables();
};

}  // namespace skald::test
