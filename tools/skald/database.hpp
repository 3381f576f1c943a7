// The database of DATABASE_URL and the broker of AMQP_URL, as operator commands use them.
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

/// That of RabbitMQ. Throws configuration_error if it is no URL of one.
std::string const& broker_url(config const& settings);

/// With the settings of the environment. Throws the same.
postgres::connection connect(std::string const& command = "cli");

}  // namespace skald::tools
