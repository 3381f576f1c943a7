// How often the messages of a saga's steps were delivered, where the engine counts that.
#pragma once

#include "core/identity.hpp"
#include "postgres/connection.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace skald::console {

/// By step, of those that were delivered more than once; nothing if no one counts in that database.
std::optional<std::map<std::string, std::int64_t>> deliveries_seen(postgres::connection& c, core::saga_id const& id,
                                                                   std::string const& home);

}  // namespace skald::console
