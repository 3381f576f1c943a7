// What the lanes of a process count together.
#pragma once

#include "metrics/lane_metrics.hpp"
#include "runtime/deliveries_seen.hpp"

namespace skald::runtime {

/// One for a process. Threads: any.
struct lane_counts
{
    metrics::lane_metrics metrics;
    deliveries_seen seen;
};

}  // namespace skald::runtime
