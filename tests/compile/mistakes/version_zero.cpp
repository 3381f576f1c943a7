// A message of version 0 would be malformed.
// expected: a_version_is_from_1_to_2000000000
#include <skald/definition.hpp>

struct order
{};
constexpr skald::retriable<order> ship{"ship", "shipping"};
#ifdef MISTAKE
constexpr auto saga = skald::define("place-order", ship).versioned(0);
#else
constexpr auto saga = skald::define("place-order", ship).versioned(1);
#endif
