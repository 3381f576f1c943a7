// How often, at what intervals and for how long a step that throws is retried.
#pragma once

#include <chrono>

namespace skald {

/// The wait before a try is uniform between 0 and a ceiling that doubles from `first` to `longest`: full jitter, from
/// Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015). Attempts are counted in the database,
/// together with the message that tries again.
struct retry
{
    int attempts_max{8};                        // from 1; then compensation, or parked if it can't compensate
    std::chrono::milliseconds first{200};       // the ceiling of the first wait
    std::chrono::milliseconds longest{30'000};  // the highest ceiling

    /// The longest time from the step's first try to its outcome, retries and snoozes included, by the server's clock;
    /// 0: none. A step that has no outcome by then does not begin another try, and the saga compensates. Only for a
    /// step that may reject: a compensatable step or a pivot. A compensation has no deadline.
    std::chrono::milliseconds deadline{0};
};

}  // namespace skald
