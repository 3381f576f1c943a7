// Attributes have the names that steps have.
// expected: a_name_must_begin_with_a_letter
#include <skald/definition.hpp>

struct order
{
    std::string customer_id;
};
constexpr skald::retriable<order> ship{"ship", "shipping"};
#ifdef MISTAKE
constexpr auto saga = skald::define("place-order", ship).attribute<&order::customer_id>("customer_id");
#else
constexpr auto saga = skald::define("place-order", ship).attribute<&order::customer_id>("customer-id");
#endif
