// A saga as its home's database shows it.
#pragma once

#include "core/identity.hpp"
#include "postgres/connection.hpp"

#include <nlohmann/json.hpp>

#include <optional>

namespace skald::admin {

/// {"key","scope","definition","status","reason","created_at","finished_at","steps":[{"name","service","kind","status",
/// "attempts","at","error","compensation":{...}}]}. A step that nothing is known of yet has the status `pending`.
/// Nothing where there is no such saga. Throws what pqxx throws.
std::optional<nlohmann::json> show_saga(postgres::connection& c, core::saga_id const& id);

}  // namespace skald::admin
