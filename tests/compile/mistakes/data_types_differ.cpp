// The saga's data travels from step to step.
// expected: every step of a definition works on the same data type
#include <skald/definition.hpp>

struct order
{};
struct parcel
{};
constexpr skald::compensatable<order> charge{"charge", "payments"};
#ifdef MISTAKE
constexpr skald::pivot<parcel> ship{"ship", "shipping"};
#else
constexpr skald::pivot<order> ship{"ship", "shipping"};
#endif

constexpr auto saga = skald::define("place-order", charge, ship);
