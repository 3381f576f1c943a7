// The database of DATABASE_URL, as the operator's commands use it.
#pragma once

#include "postgres/connection.hpp"

namespace skald::tools {

/// Throws configuration_error, and what pqxx throws.
postgres::connection connect();

}  // namespace skald::tools
