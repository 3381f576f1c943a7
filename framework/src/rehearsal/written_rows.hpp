// The rows that an open transaction has written, found without a trigger or a lock on the tables.
//
// The server counts them by table. They themselves are found by their xmin and xmax, page by page from the end of each
// table, for as long as there is time: what was not found is said.
#pragma once

#include "postgres/connection.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace skald::rehearsal {

/// `own` has the transaction open, `others` sees what everybody else does. Of Skald's tables only the counts. Adds a
/// table's counts before it searches any; a table that can't be searched has a reason instead of its rows. Throws what
/// a lost connection throws.
void add_written_rows(nlohmann::json& report, postgres::connection& own, postgres::connection& others,
                      std::string const& transaction);

}  // namespace skald::rehearsal
