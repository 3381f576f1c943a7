// How many deliveries of a queue a new connection has out at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>

namespace skald::transports {

/// Few at first. What comes back may be what has just ended a process, and one that ends again returns all that it has:
/// were it the whole prefetch each time, what only waits beside it would reach the delivery limit too. So it is few
/// until something new has come and nothing that came back is left, or the connection has lived for a while: what came
/// back may have to wait for a lock, and must not keep everything else out.
class slow_start
{
public:
    using clock = std::chrono::steady_clock;

    static constexpr std::size_t few = 16;
    static constexpr std::chrono::seconds longest{10};

    explicit slow_start(std::size_t prefetch, clock::time_point now = clock::now())
        : prefetch_{prefetch}, until_{now + longest}, is_over_{prefetch <= few}
    {}

    void delivered(std::uint64_t tag, bool came_back)
    {
        if (is_over_) return;
        if (came_back) came_back_.insert(tag);
        else has_seen_new_ = true;
    }

    /// Acked, or given back.
    void settled(std::uint64_t tag) { came_back_.erase(tag); }

    /// Once over, it stays so.
    bool is_over(clock::time_point now = clock::now())
    {
        is_over_ = is_over_ || (has_seen_new_ && came_back_.empty()) || now >= until_;
        return is_over_;
    }

    /// How many may be out.
    std::size_t window(clock::time_point now = clock::now()) { return is_over(now) ? prefetch_ : few; }

private:
    std::size_t prefetch_;
    clock::time_point until_;
    std::set<std::uint64_t> came_back_;  // and are out
    bool has_seen_new_{};
    bool is_over_;
};

}  // namespace skald::transports
