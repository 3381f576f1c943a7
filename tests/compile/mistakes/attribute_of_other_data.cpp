// A saga is found by its own data.
// expected: an attribute is a member of the saga's data, or a function of it
#include <skald/definition.hpp>

struct order
{
    std::string customer;
};
struct parcel
{
    std::string customer;
};
constexpr skald::retriable<order> ship{"ship", "shipping"};
#ifdef MISTAKE
constexpr auto saga = skald::define("place-order", ship).attribute<&parcel::customer>("customer");
#else
constexpr auto saga = skald::define("place-order", ship).attribute<&order::customer>("customer");
#endif
