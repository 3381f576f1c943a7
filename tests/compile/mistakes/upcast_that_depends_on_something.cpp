// An upcast is called each time that older data is read, and says the same each time.
// expected: an upcast is a lambda without captures: it depends on the old data alone
#include <skald/upcast.hpp>

struct order
{
    int id{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id)

constexpr skald::compensatable<order> charge{"charge", "payments"};
constexpr auto make()
{
    [[maybe_unused]] constexpr int offset = 7;
#ifdef MISTAKE
    return [by = offset](order const& old) { return order{old.id + by}; };
#else
    return [](order const& old) { return order{old.id + offset}; };
#endif
}
constexpr auto saga = skald::define("place-order", charge).versioned(2, skald::upcast<order, order>(make()));
