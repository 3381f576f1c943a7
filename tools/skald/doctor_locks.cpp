#include "doctor_database.hpp"

#include <fmt/format.h>

namespace skald::tools {
namespace {

void examine_users_locks(pqxx::connection& c, findings& found)
{
    auto const rows = run(c, q::doctor_locks);
    if (rows.empty())
        found.push_back({"locks", health::ok, "no other session has held locks on tables of yours for over 5 s", ""});
    for (auto const& row : rows) {
        found.push_back({"locks", health::warning,
                         fmt::format("session {} (user {}, application {}, {}) has held locks on {} for {} s",
                                     row["pid"].c_str(), row["username"].c_str(), row["application"].c_str(),
                                     row["state"].c_str(), row["tables"].c_str(), row["seconds"].c_str()),
                         fmt::format("steps that need these rows wait: wait until it ends, or end it with `SELECT "
                                     "pg_terminate_backend({})`",
                                     row["pid"].c_str())});
    }
}

void examine_slow(pqxx::connection& c, std::string_view service, findings& found)
{
    auto const rows = run(c, postgres::filled_in(q::doctor_slow{.service = service}));
    if (rows.empty())
        found.push_back({"slow steps", health::ok,
                         "no transaction of the service that this role may see has been open for over 5 s", ""});
    for (auto const& row : rows) {
        found.push_back(
            {"slow steps", health::warning,
             fmt::format("session {} ({}) has had a transaction open for {} s, {}, and waits for {}: {}",
                         row["pid"].c_str(), row["application"].c_str(), row["seconds"].c_str(), row["state"].c_str(),
                         row["waits_for"].c_str(), row["query"].c_str()),
             fmt::format("its lane does nothing else, at most for SKALD_STATEMENT_TIMEOUT_MS, in COMMIT for "
                         "SKALD_COMMIT_TIMEOUT_MS longer; the log names the delivery (`step.slow`); `SELECT "
                         "pg_cancel_backend({})` ends the statement: its attempt fails, or, of a batch, each "
                         "delivery runs alone then",
                         row["pid"].c_str())});
    }
}

}  // namespace

findings locked_tables(pqxx::connection& c)
{
    findings found;
    for (auto const& row : run(c, q::doctor_locked)) {
        auto const began = row["began_at"].is_null()
                               ? std::string{" at an unknown time"}
                               : fmt::format(" at {} ({} s ago)", row["began_at"].c_str(), row["seconds"].c_str());
        std::string const end = row["ended_by"].c_str();
        auto const what =
            row["has_lock"].as<bool>()
                ? "{} has locked {}; its transaction began{}"
                : "{} waits to lock {}, and whatever needs them queues behind it; its transaction began{}";
        found.push_back({"locked tables", health::problem,
                         fmt::format(fmt::runtime(what), row["holder"].c_str(), row["tables"].c_str(), began),
                         "Skald's statements wait, and nothing is lost: wait until it ends, or end it" +
                             (end.empty() ? end : " with `" + end + "`")});
    }
    return found;
}

void examine_locks(pqxx::connection& c, std::string_view service, findings& found)
{
    examine_slow(c, service, found);
    examine_users_locks(c, found);
    auto const locked = locked_tables(c);
    if (locked.empty()) found.push_back({"locked tables", health::ok, "no table of Skald's is locked now", ""});
    found.insert(found.end(), locked.begin(), locked.end());
}

}  // namespace skald::tools
