// A service's database, as an audit reads it.
#pragma once

#include "postgres/connection.hpp"

#include <string>

namespace skald::audit {

postgres::connection_options options_for(std::string const& url);

/// Throws configuration_error if the database is not that service's.
void check_owner(postgres::connection& c, std::string const& service);

}  // namespace skald::audit
