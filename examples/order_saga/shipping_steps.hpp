// The step of the service `shipping`.
#pragma once

#include "order_saga.hpp"

namespace order_saga {

class arrange_shipping final : public skald::pivot_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        auto const taken =
            ctx.sql("UPDATE stock SET free = free - $2 WHERE sku = $1 AND free >= $2", o.sku, o.quantity);
        if (taken.affected_rows() == 0) return skald::reject("out of stock");
        ctx.sql("INSERT INTO shipment (order_id, sku, quantity) VALUES ($1, $2, $3)", o.id, o.sku, o.quantity);
        return skald::done();
    }
};

}  // namespace order_saga
