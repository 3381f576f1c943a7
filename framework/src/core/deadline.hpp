// A wait and a deadline: a delivery that waits for its next try comes back at the deadline at the latest.
#pragma once

#include "core/instant.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace skald::core {

/// `wait`, or the time left until the deadline if that is less; rounded up, so that the deadline has passed by then.
inline std::chrono::milliseconds wait_within(std::optional<instant> deadline, instant now,
                                             std::chrono::milliseconds wait)
{
    using std::chrono::milliseconds;
    if (!deadline) return wait;
    return std::clamp(std::chrono::ceil<milliseconds>(*deadline - now), milliseconds{0},
                      std::max(wait, milliseconds{0}));
}

}  // namespace skald::core
