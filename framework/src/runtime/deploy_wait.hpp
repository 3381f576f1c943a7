// How long a message waits for a process of its service that has its step: while a newer version is being deployed, the
// old processes take its messages too.
#pragma once

#include "core/backoff.hpp"
#include "core/instant.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>

namespace skald::runtime {

/// Until it is looked at again; nothing if it has waited for as long as it may, `longest`, and is to be parked.
inline std::optional<std::chrono::milliseconds> wait_for_deploy(std::chrono::milliseconds longest,
                                                                std::optional<core::instant> since, core::instant now,
                                                                std::mt19937_64& random)
{
    using std::chrono::milliseconds;
    // Not less than none: the header is not signed, and a database's clock may have been set back.
    auto const waited =
        std::max(since ? std::chrono::floor<milliseconds>(now - *since) : milliseconds{0}, milliseconds{0});
    if (waited >= longest) return std::nullopt;
    // Soon at first, since the next process to take it may be a new one; then after a quarter of the time that it has
    // waited, and half to all of that.
    auto const ceiling = std::clamp(waited / 4, milliseconds{200}, milliseconds{10'000});
    auto const wait = ceiling / 2 + core::backoff{ceiling / 2, ceiling / 2}.wait(1, random);
    return std::min(wait, longest - waited);
}

}  // namespace skald::runtime
