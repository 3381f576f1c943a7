// The transport that the settings name.
#pragma once

#include "core/log.hpp"
#include "ports/transport.hpp"
#include "postgres/connection.hpp"

#include <skald/config.hpp>
#include <skald/detail/transport_maker.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace skald::worker_detail {

/// Whether messages travel from database to database.
inline bool has_no_broker(config const& settings)
{
    return settings.transport == "postgres";
}

/// Whether RabbitMQ carries them.
inline bool uses_rabbitmq(config const& settings)
{
    return settings.transport == "rabbitmq";
}

/// `kafka`: what makes that transport; empty if the program has none. `name`: of the connections, for people.
/// `service`: whose database is `database`; empty if nobody's is known.
/// Connects to nothing. Throws configuration_error for settings that do not go together.
std::unique_ptr<ports::transport> make_transport(std::string const& service, std::string const& name,
                                                 config const& settings, postgres::connection_options database,
                                                 core::logger& log, detail::transport_maker const& kafka);

}  // namespace skald::worker_detail
