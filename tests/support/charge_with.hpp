// The example's charge by a gateway, with something in front of its parts.
#pragma once

#include "examples/order_saga/gateway_payment.hpp"

#include <functional>
#include <utility>

namespace order_saga {

class charge_with final : public skald::external_step<order, receipt>
{
public:
    std::function<void(skald::step_context&, order const&)> before_prepare{[](auto&, auto&) {}};
    std::function<void(skald::call_context&)> before_call{[](auto&) {}};
    std::function<void(skald::step_context&, order const&)> before_settle{[](auto&, auto&) {}};

    explicit charge_with(gateway_client const& gateway) : charge_{gateway} {}

private:
    skald::external_step<order, receipt> const& genuine() const { return charge_; }

    skald::outcome prepare(skald::step_context& ctx, order& o) const override
    {
        before_prepare(ctx, o);
        return genuine().prepare(ctx, o);
    }
    receipt call(skald::call_context& ctx, order const& o) const override
    {
        before_call(ctx);
        return genuine().call(ctx, o);
    }
    skald::probe<receipt> look(skald::call_context& ctx, order const& o) const override
    {
        return genuine().look(ctx, o);
    }
    skald::outcome settle(skald::step_context& ctx, order& o, receipt const& r) const override
    {
        before_settle(ctx, o);
        return genuine().settle(ctx, o, r);
    }
    void abandon(skald::step_context& ctx, order& o) const override { genuine().abandon(ctx, o); }

    charge_by_gateway charge_;
};

}  // namespace order_saga
