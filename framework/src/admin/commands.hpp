// Operator commands for one saga, issued at its home. See sql/migrations/0006_control.sql, skald.request_control() and
// close_saga().
#pragma once

#include "core/identity.hpp"
#include "postgres/connection.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace skald::admin {

/// What is to be said of a command whose COMMIT has left connection::warning().
inline constexpr std::string_view not_replicated =
    "it is done, but may be gone after a failover: give it again when the standbys are back";

struct command
{
    std::string action;  // pause, resume, cancel, retry
    core::saga_id saga;
    std::string reason;
    std::string by;  // the person, in addition to the database's user
};

/// {"id", "action", "told": [services], "step", "left"}; or {"refused": why}, and then nothing was done. One
/// transaction. Throws what pqxx throws.
nlohmann::json issue(postgres::connection& c, command const& what);

/// Says that no such saga was started in this database, which one that is, and, where it is known, whose it is.
std::string not_started_here(postgres::connection& c, core::saga_id const& saga);

/// Closes a saga as `as_status`, completed or compensated; the action in `what` is ignored. Shapes and errors are those
/// of issue(), and "lost": steps that are under way, whose end nothing will record. It is refused if there are
/// any, unless `even_with_calls`.
nlohmann::json close(postgres::connection& c, std::string const& as_status, command const& what,
                     bool even_with_calls = false);

}  // namespace skald::admin
