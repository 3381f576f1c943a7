// Writes how often steps were delivered to skald.deliveries_seen (sql/migrations/0012_deliveries_seen.sql).
#pragma once

#include "postgres/connection.hpp"
#include "runtime/deliveries_seen.hpp"

namespace skald::admin {

/// All that was counted, in one statement that waits for no lock. What can't be written now is kept for the next time.
/// Throws pqxx::broken_connection.
void record_deliveries(postgres::connection& c, runtime::deliveries_seen& seen);

}  // namespace skald::admin
