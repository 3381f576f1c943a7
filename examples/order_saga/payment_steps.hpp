// The step of the service `payments`.
#pragma once

#include "order_saga.hpp"

#include <utility>

namespace order_saga {

inline void note_charge(skald::step_context& ctx, order const& o, char const* kind)
{
    ctx.sql("INSERT INTO charge (order_id, customer, cents, kind) VALUES ($1, $2, $3, $4)", o.id, o.customer, o.cents,
            kind);
}

class charge_payment final : public skald::compensatable_step<order>, public skald::batch_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        auto const paid =
            ctx.sql("UPDATE wallet SET cents = cents - $2 WHERE customer = $1 AND cents >= $2", o.customer, o.cents);
        if (paid.affected_rows() == 0) return skald::reject("insufficient funds");
        note_charge(ctx, o, "charge");
        return skald::done();
    }

    // A whole batch in one statement. If the wallets do not cover all of it, each order is charged by itself, and gets
    // its own outcome.
    skald::batch_outcome execute_batch(skald::batch<order>& all) const override
    {
        auto wanted = nlohmann::json::array();
        for (auto const& one : all)
            wanted.push_back({{"id", one.data.id}, {"customer", one.data.customer}, {"cents", one.data.cents}});
        auto const charged = all.sql(
            "WITH wanted AS (SELECT * FROM jsonb_to_recordset($1::jsonb) AS w(id text, customer text, cents bigint)),"
            // In the same order for every batch: two batches with the same wallets must not deadlock. One lookup for
            // each customer, however many wallets there are.
            " sums AS (SELECT customer, sum(cents) AS cents FROM wanted GROUP BY customer ORDER BY customer),"
            " locked AS (SELECT w.customer FROM sums s CROSS JOIN LATERAL"
            "              (SELECT customer FROM wallet WHERE customer = s.customer FOR NO KEY UPDATE) AS w),"
            " paid AS (UPDATE wallet w SET cents = w.cents - s.cents FROM sums s"
            "           WHERE w.customer = ANY (ARRAY (SELECT customer FROM locked))"
            "             AND w.customer = s.customer AND w.cents >= s.cents RETURNING w.customer)"
            " INSERT INTO charge (order_id, customer, cents, kind)"
            " SELECT w.id, w.customer, w.cents, 'charge' FROM wanted w JOIN paid USING (customer)",
            wanted.dump());
        return std::cmp_equal(charged.affected_rows(), all.size()) ? skald::all_done() : skald::one_by_one();
    }

    void compensate(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents + $2 WHERE customer = $1", o.customer, o.cents);
        note_charge(ctx, o, "refund");
    }
};

}  // namespace order_saga
