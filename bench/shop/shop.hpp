// The saga that is measured: three services, and for each step one business statement that inserts a row.
#pragma once

#include <skald/skald.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

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

class create_order : public skald::compensatable_step<order>
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

class charge_payment : public skald::pivot_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("INSERT INTO charge (order_id, customer, cents) VALUES ($1, $2, $3)", o.id, o.customer, o.cents);
        return skald::done();
    }
};

class arrange_shipping : public skald::retriable_step<order>
{
    skald::forward_outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("INSERT INTO shipment (order_id, sku, quantity) VALUES ($1, $2, $3)", o.id, o.sku, o.quantity);
        return skald::done();
    }
};

/// The members as rows for jsonb_to_recordset().
inline std::string rows_of(skald::batch<order>& all)
{
    std::vector<order> orders;
    for (auto& one : all) orders.push_back(one.data);
    return nlohmann::json(orders).dump();
}

// The same steps with one statement for a whole batch.

class create_orders final : public create_order, public skald::batch_step<order>
{
    skald::batch_outcome execute_batch(skald::batch<order>& all) const override
    {
        all.sql("INSERT INTO customer_order (id, customer, sku, quantity, cents) SELECT m.id, m.customer, m.sku, "
                "m.quantity, m.cents"
                "  FROM jsonb_to_recordset($1::jsonb) AS m(id text, customer text, sku text, quantity integer, cents "
                "bigint)",
                rows_of(all));
        return skald::all_done();
    }
};

class charge_payments final : public charge_payment, public skald::batch_step<order>
{
    skald::batch_outcome execute_batch(skald::batch<order>& all) const override
    {
        all.sql("INSERT INTO charge (order_id, customer, cents) SELECT m.id, m.customer, m.cents"
                "  FROM jsonb_to_recordset($1::jsonb) AS m(id text, customer text, cents bigint)",
                rows_of(all));
        return skald::all_done();
    }
};

class arrange_shippings final : public arrange_shipping, public skald::batch_step<order>
{
    skald::batch_outcome execute_batch(skald::batch<order>& all) const override
    {
        all.sql("INSERT INTO shipment (order_id, sku, quantity) SELECT m.id, m.sku, m.quantity"
                "  FROM jsonb_to_recordset($1::jsonb) AS m(id text, sku text, quantity integer)",
                rows_of(all));
        return skald::all_done();
    }
};

/// What charge_payment does, for a message of no saga.
inline void charge_due_payment(skald::message_context& ctx, order const& o)
{
    ctx.sql("INSERT INTO charge (order_id, customer, cents) VALUES ($1, $2, $3)", o.id, o.customer, o.cents);
    ctx.publish("bench-sink", "charged", o);
}

/// POST /orders: the first step runs in the request's own transaction, as in the order example.
inline skald::http::response place(skald::http::request_context& ctx)
{
    auto o = ctx.json<order>();
    o.id = ctx.key();
    auto const ended = ctx.start(place_order, create_order{}, o);
    if (!ended.is_done()) return skald::http::problem_response(422, "refused");
    return skald::http::json_response(202, {{"saga", ctx.key()}});
}

/// POST /rows: a row and no saga, which is the least that a handler can do.
inline skald::http::response insert_row(skald::http::request_context& ctx)
{
    ctx.sql("INSERT INTO customer_order (id, customer, sku, quantity, cents) VALUES ($1, 'ada', 'tea', 1, 1200)",
            ctx.key());
    return skald::http::json_response(201, {{"inserted", 1}});
}

/// POST /guarded, and /repeatable: an effect that is there as often as this has run.
inline skald::http::response leave_effect(skald::http::request_context& ctx)
{
    ctx.sql("INSERT INTO guarded_effect VALUES ($1)", ctx.key());
    return skald::http::json_response(201, {{"key", ctx.key()}});
}

}  // namespace bench_shop
