// The same sagas over each transport: how fast, how long each takes, and what that costs.
#pragma once

#include "phase.hpp"

#include <cstdint>

namespace skald_bench {

struct transport_figures
{
    implementation who{};
    int under_way{};
    std::int64_t sagas{};  // that were placed in the window
    double per_second{};   // that ended in it
    percentiles completed_ms;
    cpu_split cpu;              // of the window
    double wal_bytes_a_saga{};  // of the whole phase
};

/// Closed loop over HTTP, on the framework: a client places the next order when one of those under way has ended.
transport_figures run_over_transport(bench const& b, bench_databases& databases, implementation who, int under_way);

}  // namespace skald_bench
