// Asking the database outside of a step, on a connection that may have been idle for long.
#pragma once

#include "postgres/postgres_store.hpp"

#include <pqxx/except>

namespace skald::worker_detail {

/// A connection from before a restart of the server shows itself by breaking: then once more, on a new one. So `what`
/// is something that may be done twice.
template <class What>
auto read(postgres::postgres_store& store, What what)
try {
    return what(store.open());
}
catch (pqxx::broken_connection const&) {
    return what(store.open());
}

}  // namespace skald::worker_detail
