// What a batch's fresh steps do to the service's own tables.
#pragma once

#include "database.hpp"
#include "work.hpp"

#include <vector>

namespace bench_baseline {

/// In the transaction that is open; marks those that are rejected. `each`: one statement for each of the bench's own
/// steps, instead of one for the batch.
void do_business(database& tables, role const& here, bool each, std::vector<step_work>& steps);

}  // namespace bench_baseline
