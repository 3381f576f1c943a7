// Large bodies as rows of a database, a part at a time: however large one is, no statement and no answer is.
#pragma once

#include "core/body_reference.hpp"
#include "postgres/connection.hpp"

#include <string>
#include <string_view>

namespace skald::postgres {

/// Keeps it, in the caller's transaction. Throws what connection::run() throws.
void keep_body(connection& c, core::body_reference const& what, std::string_view bytes);

/// The same, in a transaction of the user's.
void keep_body(pqxx::transaction_base& tx, core::body_reference const& what, std::string_view bytes);

/// Holds what is there. False if it is not.
bool hold_body(connection& c, core::body_reference const& what);

/// Throws ports::body_fault, and what connection::run() throws. `store`: what the place is called.
std::string read_body(connection& c, core::body_reference const& what, std::string const& store);

}  // namespace skald::postgres
