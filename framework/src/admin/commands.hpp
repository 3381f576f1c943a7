// Commands for one saga, issued at its home. See sql/migrations/0006_control.sql, skald.request_control() and
// close_saga().
#pragma once

#include "core/identity.hpp"
#include "postgres/connection.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace skald::admin {

struct command
{
    std::string action;  // pause, resume, cancel, retry
    core::saga_id saga;
    std::string reason;
    std::string by;  // the person, beside the database's user
};

/// {"id", "action", "told": [services], "step", "left"}; or {"refused": why}, and then nothing
/// was done. One transaction.
/// Throws what pqxx throws.
nlohmann::json issue(postgres::connection& c, command const& what);

/// Ends a saga by hand as `as_status`, completed or compensated; of `what` the action does not count. Shapes and errors
/// are those of issue().
nlohmann::json close(postgres::connection& c, std::string const& as_status, command const& what);

}  // namespace skald::admin
