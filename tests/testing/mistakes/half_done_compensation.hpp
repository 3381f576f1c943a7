// Gives the money back on a connection of its own: right once, and wrong where the compensation is done again because
// it was only half done the first time.
#pragma once

#include "mistakes/charging.hpp"

namespace kit_test::mistakes {

class half_done_compensation final : public charging
{
    using charging::charging;

    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        take_money(ctx, o);
        return skald::done();
    }

    void compensate(skald::step_context& ctx, order& o) const override
    {
        pqxx::connection own{url()};
        pqxx::nontransaction{own}.exec("UPDATE wallet SET cents = cents + " + std::to_string(o.cents));
        ctx.sql("INSERT INTO charge (order_id, customer, cents, kind) VALUES ($1, $2, $3, 'refund')", o.id, o.customer,
                o.cents);
    }
};

}  // namespace kit_test::mistakes
