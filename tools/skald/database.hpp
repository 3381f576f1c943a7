// The database of DATABASE_URL and the broker of AMQP_URL, as operator commands use them.
#pragma once

#include "postgres/connection.hpp"

#include <skald/config.hpp>

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

/// Complains if the last change on `c` was committed without the standbys that it should have waited for.
void complain_if_not_replicated(postgres::connection const& c);

/// Whether `error` came of the connection: what was asked on it last may have been done.
bool lost_connection(postgres::connection const& c, std::exception const& error);

/// Asks on `c`, which is connected, for a change, which is one transaction: returns the answer, and throws what `ask`
/// throws, or may_be_done.
template <class Ask>
auto change(postgres::connection const& c, Ask const& ask)
try {
    auto answer = ask();
    complain_if_not_replicated(c);
    return answer;
}
catch (std::exception const& error) {
    if (!lost_connection(c, error)) throw;
    throw may_be_done{error.what()};
}

}  // namespace skald::tools
