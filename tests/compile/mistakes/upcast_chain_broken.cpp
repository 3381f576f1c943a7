// Upcasts are applied one after the other: each begins where the one before it ends.
// expected: upcasts are a chain: each begins with the type at which the one before it ends
#include <skald/upcast.hpp>

struct order_1
{
    int id{};
};
struct order_2
{
    int id{};
};
struct order
{
    int id{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_1, id)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_2, id)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id)
#ifdef MISTAKE
using before = order_1;
#else
using before = order_2;
#endif

constexpr skald::compensatable<order> charge{"charge", "payments"};
constexpr auto saga =
    skald::define("place-order", charge)
        .versioned(2, skald::upcast<order_1, order_2>([](order_1 const& old) { return order_2{old.id}; }))
        .versioned(3, skald::upcast<before, order>([](before const& old) { return order{old.id}; }));
