// The three services: steps, tables and routes. Each program runs one of them, and a test all three.
#pragma once

#include "order_entry.hpp"
#include "order_tables.hpp"
#include "payment_steps.hpp"
#include "shipping_steps.hpp"
#include "with_kafka.hpp"

namespace order_saga {

/// Takes orders over HTTP, and is the home of their sagas.
inline skald::service orders()
{
    skald::service s{"orders"};
    s.migrate("0001_orders", tables::orders)
        // All clients that send none are one tenant here, for the README's curl; your service should require it.
        .scope(skald::http::scope_from_header("X-Scope", skald::http::scope_header::optional))
        .post("/orders", place)
        .host(place_order, steps::create_order, create_order{})
        .host(place_order, steps::confirm_order, confirm_order{});
    return with_kafka(std::move(s));
}

/// Charges and refunds wallets.
inline skald::service payments()
{
    skald::service s{"payments"};
    s.migrate("0001_payments", tables::payments).host(place_order, steps::charge_payment, charge_payment{});
    return with_kafka(std::move(s));
}

/// Takes goods from the stock.
inline skald::service shipping()
{
    skald::service s{"shipping"};
    s.migrate("0001_shipping", tables::shipping).host(place_order, steps::arrange_shipping, arrange_shipping{});
    return with_kafka(std::move(s));
}

}  // namespace order_saga
