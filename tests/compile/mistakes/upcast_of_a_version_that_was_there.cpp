// The version of an upcast is the first one with the new form, so it comes after all that have the old one.
// expected: a_version_with_an_upcast_is_above_the_one_before
#include <skald/upcast.hpp>

struct order
{
    int id{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id)
#ifdef MISTAKE
constexpr int version = 1;
#else
constexpr int version = 2;
#endif

constexpr skald::compensatable<order> charge{"charge", "payments"};
constexpr auto saga =
    skald::define("place-order", charge).versioned(version, skald::upcast<order, order>([](order const& old) {
                                                       return old;
                                                   }));
