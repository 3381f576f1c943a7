// Waiting for another process: the condition is asked again and again, up to a bound.
#pragma once

#include <chrono>
#include <thread>

namespace skald::testing {

inline constexpr std::chrono::seconds wait_max{30};

/// True as soon as `condition` is; false if it still was not when `longest` had passed.
template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds longest = wait_max)
{
    auto const until = std::chrono::steady_clock::now() + longest;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= until) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
    return true;
}

}  // namespace skald::testing
