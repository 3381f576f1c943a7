// The steps of the service `orders`.
#pragma once

#include "order_saga.hpp"

namespace order_saga {

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

class confirm_order final : public skald::retriable_step<order>
{
    skald::forward_outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE customer_order SET status = 'confirmed' WHERE id = $1", o.id);
        return skald::done();
    }
};

}  // namespace order_saga
