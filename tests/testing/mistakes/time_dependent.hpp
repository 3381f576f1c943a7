// Charges under a name that has the time in it.
#pragma once

#include "mistakes/charging.hpp"

namespace kit_test::mistakes {

class time_dependent final : public charging
{
    using charging::charging;

    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        take_money(ctx, o);
        ctx.sql("INSERT INTO charge (order_id, customer, cents, kind)"
                " VALUES ($1::text || ' of ' || clock_timestamp(), $2, $3, 'charge')",
                o.id, o.customer, o.cents);
        return skald::done();
    }
};

}  // namespace kit_test::mistakes
