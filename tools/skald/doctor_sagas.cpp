#include "doctor_database.hpp"
#include "postgres/literal.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace skald::tools {
namespace {

void examine_parked(pqxx::connection& c, findings& found)
{
    auto const parked = run(c, q::doctor_parked)[0]["parked"].as<std::int64_t>();
    add(found, "parked", parked == 0, health::problem, fmt::format("{} parked deliveries wait for a person", parked),
        "`skald parked list` shows them, `skald parked show ID` says what to do");
}

void examine_sagas(pqxx::connection& c, findings& found)
{
    auto const row = run(c, q::doctor_saga)[0];
    auto const count = [&](char const* column) { return row[column].as<std::int64_t>(); };
    add(found, "stuck sagas", count("stuck") == 0, health::problem,
        fmt::format("{} stuck sagas wait for a person", count("stuck")),
        "`skald saga list` shows them, `skald saga show KEY` says what to do");
    add(found, "unknown sagas", count("unknown") == 0, health::problem,
        fmt::format("{} sagas of which nobody knows what a call has done", count("unknown")),
        "`skald saga show KEY` says of which call; find out, and say so with `skald saga resolve`");
    add(found, "old sagas", count("old") == 0, health::warning,
        fmt::format("{} sagas have not ended within an hour", count("old")), "`skald saga show KEY` says where one is");
    add(found, "expiring", count("expiring") == 0, health::warning,
        fmt::format("{} old sagas have waited over a day for services to expire them", count("expiring")),
        "`skald purge --dry-run` names the services");
}

void examine_not_undone(pqxx::connection& c, findings& found)
{
    auto const sagas = run(c, q::doctor_not_undone)[0]["sagas"].as<std::int64_t>();
    add(found, "not undone", sagas == 0, health::problem,
        fmt::format(
            "of {} sagas a step completed, but its compensation found no record of it, so its effect may remain",
            sagas),
        "docs/repair.md, \"A step that was not undone\", finds them; check them, and fix manually what is left");
}

// What the lines add that say something of processes, if there is none.
std::string nobody_seen(pqxx::connection& c, std::string_view service)
{
    auto const rows = run(c, postgres::filled_in(q::doctor_processes{.service = service}));
    return rows[0]["sessions"].as<int>() > 0 ? "" : "; no process is connected, as far as this role may see";
}

void examine_versions(pqxx::connection& c, std::string const& unseen, findings& found)
{
    std::string over;
    bool is_well = true;
    for (auto const& row : run(c, q::doctor_versions)) {
        auto const one = fmt::format("{} version {}", row["definition"].c_str(), row["version"].c_str());
        std::string const kind = row["kind"].c_str();
        if (kind == "over") {
            over += (over.empty() ? "" : ", ") + one;
            continue;
        }
        is_well = false;
        if (kind == "not_hosted") {
            found.push_back(
                {"versions", health::warning,
                 fmt::format("{} has {} sagas under way, and the newest that a process of this service has had "
                             "is {}",
                             one, row["sagas"].c_str(), row["what"].c_str()),
                 "deploy it: messages for steps of this service wait for SKALD_DEPLOY_WAIT_SECONDS, and are "
                 "parked then"});
        }
        else if (kind == "never_hosted") {
            found.push_back({"versions", health::warning,
                             fmt::format("{} has {} sagas under way, and no process of this service has ever had a "
                                         "step of it{}",
                                         one, row["sagas"].c_str(), unseen),
                             "start the service with the steps that their plans give it"});
        }
        else {
            found.push_back(
                {"versions", health::warning, row["what"].c_str(),
                 "its last start found it; `--check-stored` of the service's program reads all that is stored"});
        }
    }
    if (is_well) {
        found.push_back({"versions", health::ok,
                         (over.empty() ? "none under way is newer than what processes of this service have had"
                                       : "no saga is left of " + over + ": what only it needs may be removed") +
                             unseen,
                         ""});
    }
}

void examine_awaited(pqxx::connection& c, std::string const& unseen, findings& found)
{
    auto const rows = run(c, q::doctor_awaited);
    if (rows.empty())
        found.push_back(
            {"awaited steps", health::ok, "no message is known to wait for a process that has its step" + unseen, ""});
    for (auto const& row : rows)
        found.push_back({"awaited steps", health::warning,
                         fmt::format("{} messages wait for a process of {} that has step {} of {} version {}",
                                     row["messages"].c_str(), row["service"].c_str(), row["step"].c_str(),
                                     row["definition"].c_str(), row["version"].c_str()),
                         "deploy it there: they are parked after SKALD_DEPLOY_WAIT_SECONDS; see docs/change.md"});
}

void examine_started(pqxx::connection& c, std::string const& unseen, findings& found)
{
    auto const row = run(c, q::doctor_started)[0];
    auto const overdue = row["overdue"].as<std::int64_t>(), unknown = row["unknown"].as<std::int64_t>();
    add(found, "started steps", overdue == 0, health::warning,
        overdue == 0 ? "none waits for a process to take it"
                     : fmt::format("{} are due, and no process takes them, one for {} s", overdue,
                                   row["overdue_seconds"].c_str()),
        "does a process of this service run that hosts them, and is their dependency's breaker closed? `skald started "
        "list` shows them, and the log events started.waiting, started.not_hosted and dependency.changed say more");
    auto const unhosted = row["unhosted"].as<std::int64_t>();
    add(found, "hosted steps", unhosted == 0, health::warning,
        unhosted == 0 ? "no started step was taken by a process that does not have it" + unseen
                      : fmt::format("{} started steps, one of them {}, were taken by a process that does not have them",
                                    unhosted, row["unhosted_step"].c_str()),
        "host the step in the service until its last saga has ended, of the same kind as it was when it started");
    auto const unsettled = row["unsettled"].as<std::int64_t>();
    add(found, "unsettled steps", unsettled == 0, health::warning,
        fmt::format("{} started steps have an end that could not be recorded, three times or more", unsettled),
        "`skald started list` has the error of each: mend the step; or, if it is an operator's answer that does not "
        "fit, `skald saga resolve` it again; or, if it is a signal that does not fit, cancel the saga or deploy a type "
        "that it fits");
    add(found, "unknown calls", unknown == 0, health::problem,
        fmt::format("of {} calls nobody knows what they have done", unknown),
        "`skald started list --unknown` shows them; find out, and say so with `skald saga resolve`");
}

}  // namespace

void examine_work(pqxx::connection& c, std::string_view service, findings& found)
{
    examine_part(c, found, "parked", [&] { examine_parked(c, found); });
    examine_part(c, found, "sagas", [&] { examine_sagas(c, found); });
    examine_part(c, found, "not undone", [&] { examine_not_undone(c, found); });
    std::string unseen;
    examine_part(c, found, "processes", [&] { unseen = nobody_seen(c, service); });
    examine_part(c, found, "versions", [&] { examine_versions(c, unseen, found); });
    examine_part(c, found, "awaited steps", [&] { examine_awaited(c, unseen, found); });
    examine_part(c, found, "started steps", [&] { examine_started(c, unseen, found); });
}

}  // namespace skald::tools
