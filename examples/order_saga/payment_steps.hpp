// The step of the service `payments`.
#pragma once

#include "order_saga.hpp"

namespace order_saga {

class charge_payment final : public skald::compensatable_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        auto const paid = ctx.sql("UPDATE wallet SET cents = cents - $2 WHERE customer = $1 AND cents >= $2", o.customer,
                                  o.cents);
        if (paid.affected_rows() == 0) return skald::reject("insufficient funds");
        note(ctx, o, "charge");
        return skald::done();
    }

    void compensate(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents + $2 WHERE customer = $1", o.customer, o.cents);
        note(ctx, o, "refund");
    }

    static void note(skald::step_context& ctx, order const& o, char const* kind)
    {
        ctx.sql("INSERT INTO charge (order_id, customer, cents, kind) VALUES ($1, $2, $3, $4)", o.id, o.customer, o.cents,
                kind);
    }
};

}  // namespace order_saga
