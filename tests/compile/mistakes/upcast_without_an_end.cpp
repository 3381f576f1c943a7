// The last upcast leads to the data of the steps, or no step could read it.
// expected: no matching
#include <skald/service.hpp>
#include <skald/upcast.hpp>

struct order_1
{
    int id{};
};
struct order
{
    int id{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_1, id)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id)
#ifdef MISTAKE
using after = order_1;
#else
using after = order;
#endif

struct charging : skald::compensatable_step<order>
{
    skald::outcome execute(skald::step_context&, order&) const override { return skald::done(); }
    void compensate(skald::step_context&, order&) const override {}
};

constexpr skald::compensatable<order> charge{"charge", "payments"};
constexpr auto saga =
    skald::define("place-order", charge).versioned(2, skald::upcast<order_1, after>([](order_1 const& old) {
                                                       return after{old.id};
                                                   }));

void build(skald::service& s)
{
    s.host(saga, charge, charging{});
}
