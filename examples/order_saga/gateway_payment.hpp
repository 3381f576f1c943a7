// The service `payments` where a gateway charges: its step is two transactions with a call between them. The wallet is
// what a customer may spend; the money itself is the gateway's.
#pragma once

#include "gateway_client.hpp"
#include "order_tables.hpp"
#include "payment_steps.hpp"

#include <string>
#include <utility>

namespace order_saga {

/// What surely did nothing may be called again; anything else leaves it to look().
template <class Call>
receipt receipt_of(Call const& call)
try {
    return call();
}
catch (surely_not_done const& error) {
    throw skald::did_not_happen_error{error.what()};
}

class charge_by_gateway final : public skald::external_step<order, receipt>
{
public:
    explicit charge_by_gateway(gateway_client gateway) : gateway_{std::move(gateway)} {}

private:
    // The budget is taken first, so that two calls can't both be made with the rest of it.
    skald::outcome prepare(skald::step_context& ctx, order& o) const override
    {
        auto const taken =
            ctx.sql("UPDATE wallet SET cents = cents - $2 WHERE customer = $1 AND cents >= $2", o.customer, o.cents);
        if (taken.affected_rows() == 0) return skald::reject("insufficient funds");
        return skald::done();
    }

    receipt call(skald::call_context& ctx, order const& o) const override
    {
        return receipt_of([&] { return gateway_.charge(ctx.key(), o.id, o.cents); });
    }

    skald::probe<receipt> look(skald::call_context&, order const& o) const override
    try {
        auto const known = gateway_.charges_of(o.id);
        if (known.empty()) return skald::did_not_happen();
        return skald::happened(known.front().charge);
    }
    catch (perhaps_done const& error) {
        return skald::unknown(error.what());
    }

    skald::outcome settle(skald::step_context& ctx, order& o, receipt const& r) const override
    {
        if (r.declined) return skald::reject("the card was declined");
        o.charge = r.id;
        note_charge(ctx, o, "charge");
        return skald::done();
    }

    void abandon(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents + $2 WHERE customer = $1", o.customer, o.cents);
    }

    gateway_client gateway_;
};

class refund_by_gateway final : public skald::external_compensation<order, receipt>
{
public:
    explicit refund_by_gateway(gateway_client gateway) : gateway_{std::move(gateway)} {}

private:
    receipt call(skald::call_context& ctx, order const& o) const override
    {
        return receipt_of([&] { return gateway_.refund(ctx.key(), o.charge); });
    }

    skald::probe<receipt> look(skald::call_context&, order const& o) const override
    try {
        for (auto const& known : gateway_.charges_of(o.id))
            if (known.charge.id == o.charge && known.refunded >= known.charge.amount)
                return skald::happened(known.charge);
        return skald::did_not_happen();
    }
    catch (perhaps_done const& error) {
        return skald::unknown(error.what());
    }

    void settle(skald::step_context& ctx, order& o, receipt const&) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents + $2 WHERE customer = $1", o.customer, o.cents);
        note_charge(ctx, o, "refund");
    }

    gateway_client gateway_;
};

inline skald::service payments_by(gateway_address const& at)
{
    gateway_client const gateway{at};
    skald::service s{"payments"};
    s.migrate("0001_payments", tables::payments)
        .dependency("gateway")
        .host(place_order, steps::charge_payment, charge_by_gateway{gateway}, refund_by_gateway{gateway},
              {.call = {.dependency = "gateway"}});
    return s;
}

}  // namespace order_saga
