// Sagas that wait: 10,000 for a signal, 100,000 for a time, with a process that is killed in the middle.
#pragma once

#include "percentiles.hpp"
#include "phase.hpp"
#include "report.hpp"

namespace skald_bench {

/// What waiting sagas hold, then their signals: over HTTP and by SQL at a steady rate, and the others as fast as it
/// goes. Throws if one does not go on exactly once.
void run_signals(bench const& b, report& out);

/// Timers that are over one after the other. The process is killed half-way, and started again at once. Throws if one
/// does not go on exactly once.
void run_timers(bench const& b, report& out);

}  // namespace skald_bench
