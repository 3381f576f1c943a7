// How long a message waits for a process of its service that has its step: while a newer version is being deployed, the
// old processes take its messages too.
#pragma once

#include "core/backoff.hpp"
#include "core/envelope.hpp"
#include "runtime/step_result.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <string>

namespace skald::runtime {

/// Until it is looked at again; nothing if it has waited for as long as it may, and is to be parked.
inline std::optional<std::chrono::milliseconds> wait_for_deploy(unrunnable const& why, core::envelope const& e,
                                                                core::instant now, std::mt19937_64& random)
{
    using std::chrono::milliseconds;
    // Not less than none: the header is not signed, and a database's clock may have been set back.
    auto const waited = std::max(
        e.waits_since ? std::chrono::floor<milliseconds>(now - *e.waits_since) : milliseconds{0}, milliseconds{0});
    if (waited >= why.for_deploy) return std::nullopt;
    // Soon at first, since the next process to take it may be a new one; then after a quarter of the time that it has
    // waited, and half to all of that.
    auto const ceiling = std::clamp(waited / 4, milliseconds{200}, milliseconds{10'000});
    auto const wait = ceiling / 2 + core::backoff{ceiling / 2, ceiling / 2}.wait(1, random);
    return std::min(wait, why.for_deploy - waited);
}

}  // namespace skald::runtime
