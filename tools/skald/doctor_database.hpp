// What the parts of `skald doctor` that examine a database share.
#pragma once

#include "doctor.hpp"
#include "skald_operator_queries.hpp"

#include <pqxx/pqxx>

#include <string>
#include <string_view>
#include <utility>

namespace skald::tools {

namespace q = operator_queries;

inline pqxx::result run(pqxx::connection& c, std::string_view text)
{
    return pqxx::nontransaction{c}.exec(std::string{text});
}

inline void add(findings& found, std::string check, bool well, health otherwise, std::string means, std::string remedy)
{
    found.push_back({std::move(check), well ? health::ok : otherwise, std::move(means), well ? "" : std::move(remedy)});
}

/// Runs one part of the examination. If it waits for a lock for longer than doctor_session allows, that is a finding
/// named `check`, and the other parts run all the same.
template <class Part>
void examine_part(findings& found, std::string check, Part part)
try {
    part();
}
catch (pqxx::sql_error const& error) {
    if (error.sqlstate() != "55P03") throw;
    found.push_back({std::move(check), health::problem, "not examined: a table of Skald's was locked for over 2 s",
                     "`locked tables` below says by whom"});
}

/// The message handlers that processes of this service have had.
std::vector<ports::handler_queue> handlers_of(pqxx::connection& c);

/// Whether there is a schema of this version, in which the other parts can ask.
bool examine_schema(pqxx::connection& c, findings& found);

/// Of this role, and of those as which processes of `service` are connected; of this one only if it is empty.
void examine_privileges(pqxx::connection& c, std::string_view service, findings& found);

/// Locks that other sessions hold: on users' tables, and on Skald's.
void examine_locks(pqxx::connection& c, findings& found);

}  // namespace skald::tools
