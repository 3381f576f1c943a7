// A step that can't be undone is not hosted where one is planned that can.
// expected: the handle is skald::compensatable and the class a pivot_step
#include "order.hpp"

#ifdef MISTAKE
struct charge final : skald::pivot_step<order>
{
    skald::outcome execute(skald::step_context&, order&) const override { return skald::done(); }
};
#else
struct charge final : skald::compensatable_step<order>
{
    skald::outcome execute(skald::step_context&, order&) const override { return skald::done(); }
    void compensate(skald::step_context&, order&) const override {}
};
#endif

void set_up(skald::service& service)
{
    service.host(place_order, steps::charge, charge{});
}
