// What the lanes of a process count together.
#pragma once

#include "metrics/lane_metrics.hpp"
#include "metrics/step_metrics.hpp"
#include "runtime/deliveries_seen.hpp"

namespace skald::runtime {

/// One for a process. Threads: any.
struct lane_counts
{
    metrics::lane_metrics metrics;
    metrics::direction_metrics unhosted;  // steps that this service does not have; shown nowhere
    deliveries_seen seen;
};

}  // namespace skald::runtime
