// How many deliveries of a step share a transaction, and how many such transactions run at a time: found out while it
// runs, as TCP finds out what a line bears. It starts small and doubles; where transactions get in each other's way it
// shrinks at once, and where they do not it grows again, one at a time, and later each time that this was too early.
//
// In which order: first fewer lanes of this process run the step; then its transactions take turns with those of other
// processes; then fewer deliveries share one. Many in one transaction at a time beat one in each of many, since they
// share its cost and wait for nobody. A step that takes long has small transactions from the start, whoever is in the
// way: what it locks is locked until the last of its neighbours has run. See docs/contention.md.
#pragma once

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
    /// One more delivery at a time: a line in the log. What operators look for is what shrank, and the end of that.
    bool is_growth{};
};

/// Pure: whoever calls says what time it is. Threads: one at a time.
class step_limit
{
public:
    using clock = std::chrono::steady_clock;

    explicit step_limit(limit_bounds bounds);

    std::size_t lanes() const { return lanes_; }
    std::size_t batch() const;
    bool takes_turns() const { return takes_turns_; }

    /// Rolled back since others were in the way, from the beginning.
    std::int64_t conflicts() const { return conflicts_; }

    /// A transaction of so many committed, and the step's own code ran for so long. How the limit has changed, if so.
    std::optional<limit_change> committed(std::size_t members, clock::duration ran, clock::time_point now);

    /// A transaction was rolled back since another was in the way: a lock, a deadlock, a serialization failure.
    std::optional<limit_change> conflicted(clock::time_point now);

private:
    bool is_unlimited() const { return lanes_ == bounds_.lanes_max && !takes_turns_; }
    bool record_time(std::size_t members, clock::duration ran);
    std::optional<limit_change> grow_batch(std::size_t members);
    std::optional<limit_change> loosen(clock::time_point now);

    limit_bounds bounds_;
    std::size_t lanes_;
    std::size_t batch_;
    std::size_t doubles_below_;  // and grows by one from there on
    std::size_t fitting_;        // as many as may run together by the time that they take
    bool takes_turns_{};
    double member_seconds_{};  // of one delivery, lately
    std::int64_t conflicts_{};
    clock::duration loosen_after_;
    clock::time_point loosened_{};
    clock::time_point loosen_at_{};
    std::optional<clock::time_point> shrunk_{};
};

}  // namespace skald::runtime
