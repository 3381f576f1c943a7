// Whether there is a pooler between a connection and the server, and of which kind.
//
// Skald sets and prepares things on its sessions, and `skald migrate` locks there. Behind a pooler that hands out its
// server connections for one transaction at a time, all of that would land on any client's session (reliability F16).
#pragma once

#include <pqxx/connection>

#include <string>

namespace skald::postgres {

enum class pooling {
    none,
    sessions,      // one of the server's sessions for as long as we are connected: no difference for us
    transactions,  // another one for each transaction, or each statement
};

/// Sends only harmless queries. If it finds a pooler, opens one more connection with `conninfo` to find out of which
/// kind it is; if that gets no answer within 5 s, throws pqxx::broken_connection.
pooling find_pooling(pqxx::connection& c, std::string const& conninfo);

/// Throws configuration_error for pooling::transactions; else as find_pooling(). To be called before anything is set,
/// locked or prepared on `c`.
void refuse_transaction_pooler(pqxx::connection& c, std::string const& conninfo);

}  // namespace skald::postgres
