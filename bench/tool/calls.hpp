// Long calls whose owners die or stand still.
#pragma once

#include "phase.hpp"
#include "report.hpp"

namespace skald_bench {

/// A long job with heartbeats, in three processes; whoever has it is killed twice. Throws unless it has one effect and
/// each owner went on from the checkpoint.
void run_job(bench const& b, report& out);

/// A call without heartbeats, whose owner is stopped (SIGSTOP) for long, as by a debugger, while another takes over and
/// ends it; then it goes on. Throws if anything of what it then does is recorded.
void run_stopped_owner(bench const& b, report& out);

}  // namespace skald_bench
