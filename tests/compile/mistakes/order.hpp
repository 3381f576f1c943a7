// A saga of one compensatable and one retriable step.
#pragma once

#include <skald/skald.hpp>

#include <string>

struct order
{
    std::string id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id)

namespace steps {
inline constexpr skald::compensatable<order> charge{"charge", "payments"};
inline constexpr skald::retriable<order> ship{"ship", "shipping"};
}  // namespace steps

inline constexpr auto place_order = skald::define("place-order", steps::charge, steps::ship);
