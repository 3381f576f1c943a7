// For tests with a real broker, where something will be true soon: asked again and again, up to a limit,
// and no longer than it takes.
#pragma once

#include <chrono>
#include <thread>

namespace skald::testing {

/// True as soon as `condition()` is; false where it still was not when `limit` had passed. What
/// it throws passes through.
template <class Condition>
[[nodiscard]] bool wait_until(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds{30})
{
    auto const until = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= until) return false;
        // What another process or thread does tells nobody here when it is done.
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    return true;
}

}  // namespace skald::testing
