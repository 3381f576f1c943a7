// What operators did, as each database has it in skald.audit.
#pragma once

#include "databases.hpp"
#include "saga_story.hpp"

#include <string>
#include <vector>

namespace skald::console {

/// What was done in that database to one saga.
std::vector<audit_row> audit_of(postgres::connection& c, std::string const& service, core::saga_id const& id);

/// Why it was done; empty if no one said. (`reason` of a parked delivery is why that was parked.)
std::string reason_of(audit_row const& row);

struct audit_page
{
    std::vector<audit_row> rows;  // the latest first
    std::string next;             // `before` of the next page; empty: there is none
    std::vector<away> missing;
    bool is_partly_searched{};  // a database has more, and was looked at no further back than `next`
};

/// Of all services. `before`: a time, or empty; `actor`: what the name contains.
audit_page audit_before(databases const& all, std::string const& before, std::string const& actor, int rows_max);

}  // namespace skald::console
