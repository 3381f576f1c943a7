// The database of DATABASE_URL and the broker of AMQP_URL, as operator commands use them.
#pragma once

#include "postgres/connection.hpp"

#include <skald/config.hpp>

#include <pqxx/except>

#include <exception>
#include <stdexcept>
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

/// What was asked for may have been done: the connection broke before the answer was there. It says why that broke.
class may_be_done : public std::runtime_error
{
public:
    using runtime_error::runtime_error;
};

/// Asks on `c`, which is connected, for a change, which is one transaction: returns the answer, and throws what `ask`
/// throws, or may_be_done.
template <class Ask>
auto change(postgres::connection const& c, Ask const& ask)
try {
    return ask();
}
catch (std::exception const& error) {
    bool const is_lost = dynamic_cast<pqxx::broken_connection const*>(&error) != nullptr || !c.is_open();
    if (!is_lost) throw;
    throw may_be_done{error.what()};
}

}  // namespace skald::tools
