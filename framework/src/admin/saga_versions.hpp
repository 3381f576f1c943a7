// Which versions of which definitions are under way among the sagas of a home.
#pragma once

#include "admin/stored_sagas.hpp"
#include "postgres/connection.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace skald::admin {

/// {"versions": [{"definition", "version", "sagas", "stuck", "oldest", "oldest_seconds", "places": [{"step", "status",
/// "sagas"}], "places_of", "is_home", "may_be_removed"}]}, the newest version of each definition first. `places`: the
/// latest that is known of a saga's steps, empty before the first, of so many of the oldest as `places_of` says, 1,000
/// at most. What may be removed has no saga under way here, and is not the newest. Throws what pqxx throws.
nlohmann::json saga_versions(postgres::connection& c);

/// "after charge 12, at ship (retrying) 3", of one of these versions.
std::string places_in_words(nlohmann::json const& version);

/// Records what a process that has just looked could not read of stored sagas, in place of what was recorded before.
void record_unreadable(postgres::connection& c, std::vector<unreadable_data> const& all);

/// Records which versions a process of the service has. Does nothing on a schema that is older than that.
void record_versions(postgres::connection& c, std::vector<std::pair<std::string, int>> const& all);

}  // namespace skald::admin
