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
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
            std::string serial;
        };
        std::string step;
        std::vector<delivery> deliveries;
        std::size_t seen{running_member::none};  // who ran when somebody looked
        clock::time_point since;                 // and from when on
        clock::time_point log_from;
        std::optional<std::size_t> kept;  // who hung first: all others were released
    };

    struct hang
    {
        std::string step;
        std::string key;  // of the delivery that does not return, or of the first where one call runs them all
        std::chrono::seconds since{};
        std::vector<ports::delivery_tag> released;  // the others: told once
        std::vector<std::string> serials;           // and what they were not to run beside
    };

    explicit running_groups(clock::duration hang_after) : hang_after_{hang_after} {}

    /// The address stays until end(). In the order in which `running` counts the members.
    group& begin(std::string_view step, std::span<task const> tasks);

    /// The only member that still belongs to the group; nothing: all of them do.
    std::optional<std::size_t> end(group const& ended);

    /// To be asked several times while `hang_after` passes: a member runs from the first time that it is seen running.
    /// Those that have run for longer, each again when twice as long has passed.
    std::vector<hang> hanging(clock::time_point now);

private:
    clock::duration hang_after_;
    std::list<group> groups_;
};

}  // namespace skald::runtime
