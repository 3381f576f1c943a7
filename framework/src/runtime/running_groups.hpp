// What the lanes run now, to notice a step that does not return, and which of the deliveries beside it need not wait
// for it.
#pragma once

#include "ports/transport.hpp"
#include "runtime/task.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <list>
#include <span>
#include <string>
#include <vector>

namespace skald::runtime {

/// Which of a group's deliveries its lane runs; written by the lane, read by whoever looks.
class running_member
{
public:
    static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();  // Skald's own statements
    static constexpr std::size_t all = none - 1;                                  // one call for all of them

    void is(std::size_t member) { at_.store(member, std::memory_order_relaxed); }
    std::size_t get() const { return at_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::size_t> at_{none};
};

/// Threads: one at a time, but for `running`.
class running_groups
{
public:
    using clock = std::chrono::steady_clock;

    struct group
    {
        running_member running;

    private:
        friend class running_groups;
        struct delivery
        {
            ports::delivery_tag tag;
            std::string key;
        };
        std::vector<delivery> deliveries;
        clock::time_point since;
        clock::time_point tell_from;
        bool is_released{};
    };

    struct hang
    {
        std::string key;  // of the step that does not return, or of the first where one call runs them all
        std::chrono::seconds since{};
        std::vector<ports::delivery_tag> released;  // the others: told once
    };

    /// The address stays until end().
    group& begin(std::span<task const> tasks, clock::time_point now, clock::duration patience);
    void end(group const& ended);

    /// The steps that have run for longer than `patience`, each again when twice as long has passed.
    std::vector<hang> hanging(clock::time_point now);

private:
    std::list<group> groups_;
};

}  // namespace skald::runtime
