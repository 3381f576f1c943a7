// Full jitter: uniform between zero and a ceiling that doubles, so that many that failed together do not all retry
// together.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>

namespace skald::core {

struct backoff
{
    std::chrono::milliseconds first{100};
    std::chrono::milliseconds longest{15'000};

    /// The ceiling of the wait after `failures` failures in a row (1 is the first).
    std::chrono::milliseconds ceiling(int failures) const
    {
        int const doublings = std::clamp(failures, 1, 63) - 1;
        // Compared before doubling, which therefore can't overflow, whatever the policy.
        if (first.count() > longest.count() >> doublings) return longest;
        return std::chrono::milliseconds{first.count() << doublings};
    }

    template <class Generator>
    std::chrono::milliseconds wait(int failures, Generator& random) const
    {
        using count = std::chrono::milliseconds::rep;
        return std::chrono::milliseconds{std::uniform_int_distribution<count>{0, ceiling(failures).count()}(random)};
    }
};

}  // namespace skald::core
