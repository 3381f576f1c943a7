// What is counted of the front: the requests that asked it before they asked the guard.
#pragma once

#include "metrics/counter.hpp"
#include "metrics/histogram.hpp"

#include <array>
#include <string_view>

namespace skald::metrics {

/// In the order of ports::found::kind.
inline constexpr std::array<std::string_view, 6> front_results{"nothing",  "result", "mismatch",
                                                               "acquired", "held",   "away"};

/// Threads: any.
struct front_metrics
{
    std::array<counter, front_results.size()> asked;
    counter not_asked;       // requests that did without: there were too few duplicates
    time_histogram seconds;  // until it answered, or was found to be away
};

}  // namespace skald::metrics
