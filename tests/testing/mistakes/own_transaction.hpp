// Takes the money in a transaction, though in one of its own.
#pragma once

#include "mistakes/charging.hpp"

namespace kit_test::mistakes {

class own_transaction final : public charging
{
    using charging::charging;

    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        pqxx::connection own{url()};
        pqxx::work tx{own};
        tx.exec("UPDATE wallet SET cents = cents - " + std::to_string(o.cents));
        tx.commit();
        ctx.sql("INSERT INTO charge (order_id, customer, cents, kind) VALUES ($1, $2, $3, 'charge')", o.id, o.customer,
                o.cents);
        return skald::done();
    }
};

}  // namespace kit_test::mistakes
