// A compensatable step says how it is undone.
// expected: compensate
#include "order.hpp"

struct charge final : skald::compensatable_step<order>
{
    skald::outcome execute(skald::step_context&, order&) const override { return skald::done(); }
#ifndef MISTAKE
    void compensate(skald::step_context&, order&) const override {}
#endif
};

void set_up(skald::service& service)
{
    service.host(place_order, steps::charge, charge{});
}
