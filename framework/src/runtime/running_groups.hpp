// What the lanes run now: to notice a step that does not return, and which deliveries in its group need not wait for
// it.
#pragma once

#include "ports/transport.hpp"
#include "runtime/task.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald::runtime {

/// Which of a group's deliveries its lane runs; written by the lane, read by any thread.
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

/// Threads: one at a time, except for `running`.
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
            std::string serial;
        };
        std::string step;
        std::vector<delivery> deliveries;
        std::size_t seen{running_member::none};  // the member that ran at the last check
        clock::time_point since;                 // and since when
        clock::time_point log_from;
        std::optional<std::size_t> kept;  // the member that hung first: all others were released
    };

    struct slow
    {
        std::string step;
        std::string key;  // of the delivery that does not return, or of the first where one call runs them all
        bool is_one{};    // false: one call runs them all
        bool hangs{};     // has run for `hang_after`
        std::chrono::seconds since{};
        std::vector<ports::delivery_tag> released;  // the others: reported once
        std::vector<std::string> serials;           // and the values that they are serialized by
    };

    running_groups(clock::duration slow_after, clock::duration hang_after)
        : slow_after_{std::min(slow_after, hang_after)}, hang_after_{hang_after}
    {}

    /// The address is valid until end(). `tasks` are in the order in which `running` counts the members.
    group& begin(std::string_view step, std::span<task const> tasks);

    /// The only member that still belongs to the group; nothing if all of them do.
    std::optional<std::size_t> end(group const& ended);

    /// To be called several times within `slow_after`: a member counts as running from the first call that sees it run.
    /// Returns those that have run for longer, each again after twice as long, and as soon as it hangs.
    std::vector<slow> running_long(clock::time_point now);

private:
    slow told(group& one, clock::time_point now) const;

    clock::duration slow_after_;
    clock::duration hang_after_;
    std::list<group> groups_;
};

}  // namespace skald::runtime
