// What the parts of `skald doctor` that examine a database share.
#pragma once

#include "doctor.hpp"
#include "skald_operator_queries.hpp"

#include <pqxx/pqxx>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace skald::tools {

namespace q = operator_queries;

inline pqxx::result run(pqxx::connection& c, std::string_view text)
{
    return pqxx::nontransaction{c}.exec(std::string{q::doctor_session} + std::string{text});
}

inline void add(findings& found, std::string check, bool well, health otherwise, std::string means, std::string remedy)
{
    found.push_back({std::move(check), well ? health::ok : otherwise, std::move(means), well ? "" : std::move(remedy)});
}

/// The same, and whose lock was in the way, if one was: at the end of the examination it may be gone.
finding not_examined(pqxx::connection& c, std::string check, std::exception const& error);

/// Runs one part of the examination. If it fails, that is a finding named `check`, and the other parts run all the
/// same.
/// Throws pqxx::broken_connection.
template <class Part>
void examine_part(pqxx::connection& c, findings& found, std::string check, Part part)
try {
    part();
}
catch (pqxx::broken_connection const&) {
    throw;
}
catch (std::exception const& error) {
    found.push_back(not_examined(c, std::move(check), error));
}

/// The message handlers that processes of this service have had.
std::vector<ports::handler_queue> handlers_of(pqxx::connection& c);

/// Whether there is a schema of this version, in which the other parts can ask.
bool examine_schema(pqxx::connection& c, findings& found);

/// Of this role, and of those as which processes of `service` are connected; of this one only if it is empty.
void examine_privileges(pqxx::connection& c, std::string_view service, findings& found);

/// What waits for a person, a version, a process or a call: each a part of its own.
void examine_work(pqxx::connection& c, std::string_view service, findings& found);

/// A finding for each transaction that keeps tables of Skald's locked now, the oldest first.
findings locked_tables(pqxx::connection& c);

/// What `service` takes long over, and locks that other sessions hold: on users' tables, and on Skald's.
void examine_locks(pqxx::connection& c, std::string_view service, findings& found);

}  // namespace skald::tools
