// The scenarios, each a few measurements in turn.
#pragma once

#include "phase.hpp"
#include "report.hpp"

namespace skald_bench {

/// The chosen scenarios, in the order of scenario_names.
void run_scenarios(bench const& b, report& out);

}  // namespace skald_bench
