// How many lanes run deliveries of one step at a time, for steps that say so: one whose rows are few and hot, or whose
// neighbour can bear only so much. What comes while they are all taken waits here, unacked, and the lane that becomes
// free of that step goes on with it; the other lanes go on with other steps.
#pragma once

#include "ports/transport.hpp"

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace skald::runtime {

/// One for all lanes of a process. Bounded by the prefetch, as everything unacked is. Threads: any.
class step_lanes
{
public:
    using limits = std::map<std::string, std::size_t, std::less<>>;  // by the step's name

    explicit step_lanes(limits const& of_steps);

    /// A lane has taken these: returns those that it runs now.
    std::vector<ports::delivery> enter(std::vector<ports::delivery> taken);

    /// It has run these, and may take them up again by no other way: returns what has waited for it, at most `max`.
    std::vector<ports::delivery> leave(std::vector<ports::delivery> const& ran, std::size_t max);

private:
    struct step
    {
        std::size_t lanes_max{};
        std::size_t running{};
        std::deque<ports::delivery> waiting;
    };

    step* find(ports::delivery const& d);

    std::mutex mutex_;
    std::map<std::string, step, std::less<>> steps_;  // only those with a limit
};

}  // namespace skald::runtime
