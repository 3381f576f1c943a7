// Another system that external steps call: how much of it a process may use, and when it is left alone.
#pragma once

#include <chrono>
#include <cstddef>

namespace skald {

/// Of one process. A circuit breaker (Nygard, "Release It!") stops calls while the other system is ill: they wait,
/// which costs no attempt, and one call at a time finds out whether it is well again.
struct dependency_limits
{
    std::size_t at_a_time{8};   // calls under way
    std::size_t per_second{0};  // calls begun; 0: any number

    // The breaker opens when, of at least `calls_min` calls that ended within `window`, this share has failed or was
    // slow; and when five in a row have or were, since few calls end where each waits for its time limit.
    double failures{0.5};                      // a share of them
    std::size_t calls_min{10};                 // fewer tell nothing
    std::chrono::milliseconds window{10'000};  // that counts
    std::chrono::milliseconds slow{10'000};    // a call that takes longer is as bad as one that fails

    std::chrono::milliseconds open_first{1'000};     // how long it stays open the first time
    std::chrono::milliseconds open_longest{60'000};  // and at most, if it does not get well
};

}  // namespace skald
