// The saga that is measured: three services, and one business statement for each step.
//
// An order says by its customer what is to become of it: `hot` pays from a wallet, which is one row for all of them, and
// `broke` is rejected. The others get a row of their own.
#pragma once

#include <skald/skald.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace bench_shop {

struct order
{
    std::string id;
    std::string customer;
    std::string sku;
    int quantity{};
    std::int64_t cents{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id, customer, sku, quantity, cents)

namespace steps {
inline constexpr skald::compensatable<order> create_order{"create-order", "bench-orders"};
inline constexpr skald::pivot<order> charge_payment{"charge-payment", "bench-payments"};
inline constexpr skald::retriable<order> arrange_shipping{"arrange-shipping", "bench-shipping"};
}  // namespace steps

inline constexpr auto place_order =
    skald::define("bench-order", steps::create_order, steps::charge_payment, steps::arrange_shipping);

class create_order final : public skald::compensatable_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("INSERT INTO customer_order (id, customer, sku, quantity, cents) VALUES ($1, $2, $3, $4, $5)", o.id,
                o.customer, o.sku, o.quantity, o.cents);
        return skald::done();
    }

    void compensate(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE customer_order SET status = 'cancelled' WHERE id = $1", o.id);
    }
};

class charge_payment final : public skald::pivot_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        if (o.customer == "broke") return skald::reject("insufficient funds");
        if (o.customer == "hot")
            ctx.sql("UPDATE wallet SET cents = cents - $2 WHERE customer = $1", o.customer, o.cents);
        else ctx.sql("INSERT INTO charge (order_id, customer, cents) VALUES ($1, $2, $3)", o.id, o.customer, o.cents);
        return skald::done();
    }
};

class arrange_shipping final : public skald::retriable_step<order>
{
    skald::forward_outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("INSERT INTO shipment (order_id, sku, quantity) VALUES ($1, $2, $3)", o.id, o.sku, o.quantity);
        return skald::done();
    }
};

/// POST /orders: the first step runs in the request's own transaction, as in the order example.
inline skald::http::response place(skald::http::request_context& ctx)
{
    auto o = ctx.json<order>();
    o.id = ctx.key();
    ctx.start(place_order, create_order{}, o);
    return skald::http::json_response(202, {{"saga", ctx.key()}});
}

}  // namespace bench_shop
