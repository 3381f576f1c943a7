// What comes behind the point of no return can't be undone.
// expected: steps come in this order
#include <skald/definition.hpp>

struct order
{};
constexpr skald::compensatable<order> charge{"charge", "payments"};
constexpr skald::pivot<order> ship{"ship", "shipping"};

#ifdef MISTAKE
constexpr auto saga = skald::define("place-order", ship, charge);
#else
constexpr auto saga = skald::define("place-order", charge, ship);
#endif
