// Summarizes a set of durations in a few figures.
#pragma once

#include <cstddef>
#include <vector>

namespace skald_bench {

/// Of durations, in milliseconds. A percentile is one of the values: the smallest that this share does not exceed.
struct percentiles
{
    std::size_t count{};
    double p50{}, p95{}, p99{}, p999{}, max{};
};

percentiles percentiles_of(std::vector<double> milliseconds);

}  // namespace skald_bench
