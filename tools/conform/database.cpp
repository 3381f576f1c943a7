#include "conform/database.hpp"

#include "postgres/literal.hpp"
#include "skald_conform_queries.hpp"

namespace skald::conform {
namespace {

using postgres::filled_in;

int point(place where)
{
    return where == place::step ? 7001 : where == place::commit ? 7002 : 7003;  // as the triggers say
}

}  // namespace

database::database(postgres::connection_options const& options) : connection_{options}
{
    connection_.run(std::string{queries::conform_tables});
}

void database::hold(std::string const& line, place where)
{
    connection_.run(filled_in(queries::conform_hold{.point = point(where), .line = line}));
}

std::optional<int> database::held(std::string const& line, place where)
{
    auto const rows = connection_.run(filled_in(queries::conform_held{.point = point(where), .line = line}));
    return rows.empty() ? std::nullopt : std::optional{rows[0][0].as<int>()};
}

void database::end_session(int session)
{
    connection_.run(filled_in(queries::conform_end_session{.pid = session}));
}

void database::refuse(std::string const& line, std::string const& sqlstate, int session)
{
    connection_.run(filled_in(queries::conform_refuse{.line = line, .sqlstate = sqlstate, .pid = session}));
}

void database::release()
{
    connection_.run(std::string{queries::conform_release});
}

void database::open_gate(saga_name const& saga)
{
    connection_.run(filled_in(queries::conform_open_gate{.scope = saga.first, .saga = saga.second}));
}

std::vector<saga_name> database::snoozed(std::string const& run)
{
    std::vector<saga_name> all;
    for (auto const& row : connection_.run(filled_in(queries::conform_snoozed{.run = run})))
        all.emplace_back(row[0].c_str(), row[1].c_str());
    return all;
}

bool database::has_command(saga_name const& saga)
{
    return !connection_.run(filled_in(queries::conform_commanded{.scope = saga.first, .key = saga.second})).empty();
}

int database::unsent()
{
    return connection_.run(std::string{queries::conform_unsent})[0][0].as<int>();
}

void database::forget_unsent()
{
    connection_.run(std::string{queries::conform_forget});
}

std::string database::clock()
{
    return connection_.run(std::string{queries::conform_clock})[0][0].c_str();
}

void database::read(std::string const& run, seen& into)
{
    for (auto const& row : connection_.run(filled_in(queries::conform_records{.run = run})))
        into.records[{row[0].c_str(), row[1].c_str(), row[2].c_str()}] = {row[3].c_str(), row[4].as<int>(),
                                                                          row[5].as<int>()};
    for (auto const& row : connection_.run(filled_in(queries::conform_ledger{.run = run}))) {
        step_name const step{row[0].c_str(), row[1].c_str(), row[2].c_str()};
        into.lines[step][row[3].c_str()] += row[5].as<int>();
        into.cents[step].insert(row[4].as<std::int64_t>());
        if (row[6].as<bool>()) into.not_flushed.insert(step);
    }
    for (auto const& row : connection_.run(filled_in(queries::conform_parked{.run = run})))
        into.parked.push_back({row["message_id"].c_str(),
                               row["reason"].c_str(),
                               row["error"].c_str(),
                               {row["scope"].c_str(), row["key"].c_str(), row["step"].c_str()}});
}

}  // namespace skald::conform
