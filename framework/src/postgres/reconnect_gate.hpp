// When a lane may try to connect again. Lanes and requests try far more often than a server that is just starting, or
// has just taken over, can handle: without this, every request of a busy service would open another connection.
#pragma once

#include "core/backoff.hpp"

#include <chrono>
#include <random>

namespace skald::postgres {

/// Threads: one.
class reconnect_gate
{
public:
    using clock = std::chrono::steady_clock;

    bool is_open(clock::time_point now) const { return now >= opens_at_; }

    void record_success()
    {
        failures_ = 0;
        opens_at_ = {};
    }

    void record_failure(clock::time_point now) { opens_at_ = now + backoff_.wait(++failures_, random_); }

private:
    // Short even at its longest: callers that wait for the database have a backoff of their own on top.
    core::backoff backoff_{std::chrono::milliseconds{50}, std::chrono::milliseconds{1'000}};
    std::mt19937 random_{std::random_device{}()};
    int failures_{};
    clock::time_point opens_at_{};
};

}  // namespace skald::postgres
