// For tests with a real broker, where something will be true soon: polls it, up to a limit, no longer than it takes.
#pragma once

#include <chrono>
#include <thread>

namespace skald::testing {

/// True as soon as `condition()` is; false if it still is not when `limit` has passed. What it throws passes through.
template <class Condition>
[[nodiscard]] bool wait_until(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds{30})
{
    auto const until = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= until) return false;
        // Another process or thread does not notify this one when it is done.
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    return true;
}

}  // namespace skald::testing
