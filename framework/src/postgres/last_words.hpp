// What the server said last on a connection that is lost. libpqxx throws it away: where it finds the connection gone
// after a query, it complains of the client's encoding, or of the connection, and drops the result that says why.
#pragma once

#include <pqxx/connection>

#include <string>

namespace skald::postgres {

/// What the server said, where `error` is its complaint; otherwise `error` itself.
std::string last_words(pqxx::connection const& c, std::string const& error);

}  // namespace skald::postgres
