// Two attributes of one name would be one.
// expected: an_attribute_is_named_twice
#include <skald/definition.hpp>

struct order
{
    std::string customer, city;
};
constexpr skald::retriable<order> ship{"ship", "shipping"};
#ifdef MISTAKE
constexpr char const* other = "customer";
#else
constexpr char const* other = "city";
#endif
constexpr auto saga =
    skald::define("place-order", ship).attribute<&order::customer>("customer").attribute<&order::city>(other);
