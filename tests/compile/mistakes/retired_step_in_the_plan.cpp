// A step that left the plan: one that is in it has not.
// expected: a_retired_step_is_not_in_the_plan
#include <skald/definition.hpp>

struct order
{};
constexpr skald::compensatable<order> charge{"charge", "payments"};
constexpr skald::compensatable<order> check{"check", "payments"};
#ifdef MISTAKE
constexpr auto saga = skald::define("place-order", charge, check).retired(check);
#else
constexpr auto saga = skald::define("place-order", charge).retired(check);
#endif
