// How often steps were delivered, of those keys that this process met more than once: for operators, and no part of any
// guarantee. A key that is met once costs nothing here; and what is here when the process is killed is lost.
//
// A retry is a message of its own and its first delivery an attempt, so it is no repetition. What counts is a delivery
// whose step was decided before, and one that the broker had delivered before.
#pragma once

#include "core/identity.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace skald::runtime {

/// Threads: any.
class deliveries_seen
{
public:
    struct step
    {
        std::string scope, key, name, home;
        bool operator==(step const&) const = default;
        bool operator<(step const& other) const
        {
            return std::tie(scope, key, name, home) < std::tie(other.scope, other.key, other.name, other.home);
        }
    };
    struct count
    {
        std::int64_t more{};        // deliveries after the first
        std::int64_t duplicates{};  // of those, the ones that had no effect
    };

    explicit deliveries_seen(std::size_t steps_max = 10'000) : steps_max_{steps_max} {}

    void met_again(step which, bool is_duplicate)
    {
        std::lock_guard const lock{mutex_};
        add(std::move(which), {1, is_duplicate ? 1 : 0});
    }

    /// All that was counted since the last time.
    std::map<step, count> take()
    {
        std::lock_guard const lock{mutex_};
        return std::exchange(counts_, {});
    }

    /// They could not be written.
    void put_back(std::map<step, count> const& taken)
    {
        std::lock_guard const lock{mutex_};
        for (auto const& [which, counted] : taken) add(which, counted);
    }

private:
    // With this many steps nothing new is counted until these are written: a count is worth no more memory.
    void add(step which, count more)
    {
        if (counts_.size() >= steps_max_ && !counts_.contains(which)) return;
        auto& of = counts_[std::move(which)];
        of.more += more.more;
        of.duplicates += more.duplicates;
    }

    std::size_t const steps_max_;
    std::mutex mutex_;
    std::map<step, count> counts_;
};

}  // namespace skald::runtime
