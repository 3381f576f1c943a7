// The order saga's services and tables in a simulation that the test steps.
#pragma once

#include "support/simulation.hpp"

#include "examples/order_saga/order_steps.hpp"
#include "examples/order_saga/payment_steps.hpp"
#include "examples/order_saga/shipping_steps.hpp"

namespace skald::test {

class stepped_shop : public simulation
{
public:
    stepped_shop() : simulation{{"orders", "payments", "shipping"}}
    {
        using namespace order_saga;
        create_tables();
        at("orders").host(place_order, steps::create_order, create_order{});
        at("orders").host(place_order, steps::confirm_order, confirm_order{});
        at("payments").host(place_order, steps::charge_payment, charge_payment{});
        at("shipping").host(place_order, steps::arrange_shipping, arrange_shipping{});
    }

    void order(std::string const& key, int quantity = 1, std::int64_t cents = 100)
    {
        start(order_saga::place_order, order_saga::order{"o-" + key, "ann", "pen", quantity, cents}, key);
    }

    /// The home's row of a saga whose messages the test makes itself.
    void note_started(std::string const& key)
    {
        at("orders").db.run("INSERT INTO skald.saga (scope, key, definition, data, itinerary) "
                            "VALUES ('', '" +
                            key + "', 'place-order', '{}', '')");
    }

    /// Everything that steps have done, as text to compare.
    std::string effects()
    {
        return at("orders").db.rows("SELECT id, status FROM customer_order ORDER BY 1") + " / " +
               at("payments").db.rows("SELECT cents FROM wallet") + ' ' +
               at("payments").db.rows("SELECT order_id, kind, count(*) FROM charge GROUP BY 1, 2 ORDER BY 1, 2") +
               " / " + at("shipping").db.rows("SELECT free FROM stock") + ' ' +
               at("shipping").db.rows("SELECT order_id, count(*) FROM shipment GROUP BY 1 ORDER BY 1");
    }

private:
    void create_tables();
};

}  // namespace skald::test
