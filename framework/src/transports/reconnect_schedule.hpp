// When to try the next connection. Pure: the caller passes the time.
#pragma once

#include "core/backoff.hpp"

#include <chrono>
#include <random>

namespace skald::transports {

class reconnect_schedule
{
public:
    using time_point = std::chrono::steady_clock::time_point;

    reconnect_schedule(core::backoff backoff, std::uint64_t seed) : backoff_{backoff}, random_{seed} {}

    bool due(time_point now) const { return now >= next_; }
    time_point next() const { return next_; }

    void connected(time_point now)
    {
        connected_at_ = now;
        connected_ = true;
    }

    /// A connection was lost, or one could not be made.
    void failed(time_point now)
    {
        // A connection that is lost again and again soon after it was made must not count as recovered.
        if (connected_ && now - connected_at_ >= healthy_after) failures_ = 0;
        connected_ = false;
        next_ = now + backoff_.wait(++failures_, random_);
    }

private:
    static constexpr std::chrono::seconds healthy_after{10};

    core::backoff backoff_;
    std::mt19937_64 random_;
    int failures_{};
    bool connected_{};
    time_point connected_at_{};
    time_point next_{};
};

}  // namespace skald::transports
