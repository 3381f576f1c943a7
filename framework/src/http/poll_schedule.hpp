// When a waiting request is polled: soon at first, because most waits are short, then less and less often, so that many
// long waits cost little. A wait of half a minute takes twenty polls.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace skald::http {

class poll_schedule
{
public:
    using clock = std::chrono::steady_clock;

    poll_schedule(clock::time_point now, std::chrono::seconds max_wait) : end_{now + max_wait} {}

    /// Time until the next poll; the last poll is at the end of the wait. After that, nothing.
    std::optional<std::chrono::milliseconds> next(clock::time_point now)
    {
        if (left(now).count() == 0) return {};
        auto const pause = std::min(pause_, left(now));
        pause_ = std::min(pause_ * 2, longest_pause);
        return pause;
    }

    std::chrono::milliseconds left(clock::time_point now) const
    {
        return std::max(std::chrono::ceil<std::chrono::milliseconds>(end_ - now), std::chrono::milliseconds{0});
    }

private:
    static constexpr std::chrono::milliseconds longest_pause{2'000};

    clock::time_point end_;
    std::chrono::milliseconds pause_{50};
};

}  // namespace skald::http
