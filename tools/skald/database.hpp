// The database of DATABASE_URL, as operator commands use it.
#pragma once

#include "postgres/connection.hpp"

#include <skald/config.hpp>

#include <string>

namespace skald::tools {

/// The server lists the connection as skald/`command`.
postgres::connection_options database_options(config const& settings, std::string const& command);

/// Throws configuration_error, and what pqxx throws.
postgres::connection connect(config const& settings, std::string const& command);

/// Throws configuration_error where SKALD_TRANSPORT says that there is no broker, and `command` is about one.
void refuse_without_broker(config const& settings, std::string const& command);

/// With the settings of the environment. Throws the same.
postgres::connection connect(std::string const& command = "cli");

}  // namespace skald::tools
