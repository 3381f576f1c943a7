// Two steps with one name would share one record of the guard.
// expected: a_step_name_is_used_twice
#include <skald/definition.hpp>

struct order
{};
constexpr skald::compensatable<order> charge{"charge", "payments"};
#ifdef MISTAKE
constexpr skald::retriable<order> ship{"charge", "shipping"};
#else
constexpr skald::retriable<order> ship{"ship", "shipping"};
#endif

constexpr auto saga = skald::define("place-order", charge, ship);
