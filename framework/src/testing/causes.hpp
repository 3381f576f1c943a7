// Why a schedule may have ended as it did, as sentences for a report: what follows from what was seen is said as it is,
// and anything else as "it may be that", the likeliest first; and what to do.
#pragma once

#include "testing/final_state.hpp"
#include "testing/schedule.hpp"

#include <map>
#include <string>
#include <vector>

namespace skald::testing::inner {

/// How often each part of a step ran: script::runs.
using part_runs = std::map<std::string, int>;

/// Why two undisturbed runs may differ, judging by the difference.
std::string why_runs_differ(std::string const& difference);

/// Why the same schedule may fail once and pass once.
std::string why_not_every_time();

/// Why a schedule may leave behind something else, if no step was seen to do anything outside its transaction.
std::string why_disturbed();

/// Why a compensated saga may not have left all as it was before.
std::string why_not_restored(part_runs const& runs, bool is_in_tables, bool is_outside);

/// Why that way may have left behind something else than the one that it is like.
std::string why_unlike(way const& along, part_runs const& runs, std::string const& difference);

/// Why an undisturbed saga may have ended otherwise than its way has it. `steps`: those that did not complete.
std::string why_wrong_end(part_runs const& runs, std::vector<unfinished_step> const& steps);

}  // namespace skald::testing::inner
