// How many deliveries of a step share a transaction, and how many such transactions run at a time: found out at run
// time, as TCP finds out what a line can carry. It starts small and doubles; when transactions get in each other's way
// it shrinks at once, and when they do not it grows again, one at a time, and later each time that this was too early.
//
// In this order: first fewer lanes of this process run the step; then its transactions take turns with those of other
// processes; then fewer deliveries share one. Many in one transaction at a time beat one in each of many, since they
// share its cost and wait for no other. A slow step has small transactions from the start, with or without contention:
// what it locks is locked until the last delivery of its batch has run. See docs/contention.md.
#pragma once

#include "metrics/step_metrics.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace skald::runtime {

struct limit_bounds
{
    std::size_t lanes_max{1};
    std::size_t batch_max{1};
    std::size_t batch_first{1};
};

struct limit_change
{
    std::string_view why;
    metrics::limit_reason reason{};
    /// One more delivery at a time: only a line in the log. Operators look for what shrank, and for the end of that.
    bool is_growth{};
};

/// Pure: the caller passes the time. Threads: one at a time.
class step_limit
{
public:
    using clock = std::chrono::steady_clock;

    explicit step_limit(limit_bounds bounds);

    std::size_t lanes() const { return lanes_; }
    std::size_t batch() const;
    bool takes_turns() const { return takes_turns_; }

    /// How many transactions were rolled back because others were in the way, since the start.
    std::int64_t conflicts() const { return conflicts_; }

    /// A transaction of `members` committed, whose steps ran for `ran`. Returns how the limit has changed, if so.
    std::optional<limit_change> committed(std::size_t members, clock::duration ran, clock::time_point now);

    /// A transaction was rolled back because another was in the way: a lock, a deadlock, a serialization failure.
    std::optional<limit_change> conflicted(clock::time_point now);

private:
    bool is_unlimited() const { return lanes_ == bounds_.lanes_max && !takes_turns_; }
    bool record_time(std::size_t members, clock::duration ran);
    std::optional<limit_change> grow_batch(std::size_t members);
    std::optional<limit_change> loosen(clock::time_point now);

    limit_bounds bounds_;
    std::size_t lanes_;
    std::size_t batch_;
    std::size_t doubles_below_;  // from there on it grows by one
    std::size_t fitting_;        // how many may run together, given the time that they take
    bool takes_turns_{};
    double member_seconds_{};  // of one delivery, as a recent average
    std::int64_t conflicts_{};
    clock::duration loosen_after_;
    clock::time_point loosened_{};
    clock::time_point loosen_at_{};
    std::optional<clock::time_point> shrunk_{};
};

}  // namespace skald::runtime
