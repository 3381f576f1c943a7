// A token bucket: how many things may begin now, so that in no second there are more than `per_second` and a burst.
// Pure: the caller passes the time.
#pragma once

#include "core/assert.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace skald::core {

/// Threads: one at a time. The bucket is kept as the moment at which it will be full again, and so without fractions.
class rate_limit
{
public:
    using clock = std::chrono::steady_clock;

    /// 0: there is no limit. A rate of more than one each nanosecond is taken as that.
    explicit rate_limit(std::uint64_t per_second)
        : burst_{static_cast<std::int64_t>(burst_of(per_second))}, interval_{interval_of(per_second)}
    {}

    /// What may begin at once after a pause: a tenth of a second's, so that who looks ten times a second gets them all.
    static std::uint64_t burst_of(std::uint64_t per_second)
    {
        return std::max<std::uint64_t>(1, std::min(per_second, per_second_max) / 10);
    }

    std::size_t room(clock::time_point now) const
    {
        if (interval_ == interval_ns{0}) return std::numeric_limits<std::size_t>::max();
        return static_cast<std::size_t>(std::max<std::int64_t>(0, (burst_ * interval_ - missing(now)) / interval_));
    }

    /// When there will be room, if nothing begins before; `now` if there is.
    clock::time_point next(clock::time_point now) const
    {
        return room(now) > 0 ? now : full_at_ - (burst_ - 1) * interval_;
    }

    /// One begins. There must be room.
    void take(clock::time_point now)
    {
        SKALD_ASSERT(room(now) > 0);
        full_at_ = std::max(full_at_, now) + interval_;
    }

private:
    using interval_ns = std::chrono::nanoseconds;
    static constexpr std::uint64_t per_second_max = 1'000'000'000;

    // Rounded up: never a little faster than was asked.
    static interval_ns interval_of(std::uint64_t per_second)
    {
        if (per_second == 0) return interval_ns{0};
        auto const most = std::min(per_second, per_second_max);
        return interval_ns{(per_second_max + most - 1) / most};
    }

    interval_ns missing(clock::time_point now) const { return std::max(interval_ns{0}, interval_ns{full_at_ - now}); }

    std::int64_t burst_;
    interval_ns interval_;
    clock::time_point full_at_{};
};

}  // namespace skald::core
