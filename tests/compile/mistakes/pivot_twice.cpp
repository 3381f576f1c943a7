// There is one point of no return.
// expected: steps come in this order
#include <skald/definition.hpp>

struct order
{};
constexpr skald::pivot<order> charge{"charge", "payments"};
#ifdef MISTAKE
constexpr skald::pivot<order> ship{"ship", "shipping"};
#else
constexpr skald::retriable<order> ship{"ship", "shipping"};
#endif

constexpr auto saga = skald::define("place-order", charge, ship);
