// A compensatable call says what undoes it.
// expected: is hosted with what undoes it
#include "order.hpp"

struct charge final : skald::external_step<order, order>
{
    skald::outcome prepare(skald::step_context&, order&) const override { return skald::done(); }
    order call(skald::call_context&, order const& o) const override { return o; }
    skald::probe<order> look(skald::call_context&, order const&) const override { return skald::did_not_happen(); }
    skald::outcome settle(skald::step_context&, order&, order const&) const override { return skald::done(); }
};
struct refund final : skald::compensation<order>
{
    void compensate(skald::step_context&, order&) const override {}
};

void set_up(skald::service& service)
{
#ifdef MISTAKE
    service.host(place_order, steps::charge, charge{});
#else
    service.host(place_order, steps::charge, charge{}, refund{});
#endif
}
