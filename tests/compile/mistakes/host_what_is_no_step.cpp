// A class that has the functions of a step and not its base is none.
// expected: the class derives from none of Skald's steps
#include "order.hpp"

#ifdef MISTAKE
struct charge
{
    skald::outcome execute(skald::step_context&, order&) const { return skald::done(); }
    void compensate(skald::step_context&, order&) const {}
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
