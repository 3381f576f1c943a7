// Reads from the database outside a step, on a connection that may have been idle for long.
#pragma once

#include "postgres/postgres_store.hpp"

#include <pqxx/except>

namespace skald::worker_detail {

/// A connection from before a restart of the server breaks on first use: then `what` runs once more, on a new one. So
/// `what` must be safe to run twice.
template <class What>
auto read(postgres::postgres_store& store, What what)
try {
    return what(store.open());
}
catch (pqxx::broken_connection const&) {
    return what(store.open());
}

}  // namespace skald::worker_detail
