// A step that can't be undone does not come before one that may say no.
// expected: steps come in this order
#include <skald/definition.hpp>

struct order
{};
constexpr skald::pivot<order> charge{"charge", "payments"};
constexpr skald::retriable<order> ship{"ship", "shipping"};

#ifdef MISTAKE
constexpr auto saga = skald::define("place-order", ship, charge);
#else
constexpr auto saga = skald::define("place-order", charge, ship);
#endif
