#include "doctor_database.hpp"

#include "postgres/conninfo.hpp"
#include "postgres/migrate.hpp"
#include "postgres/pooler.hpp"

#include <pqxx/pqxx>

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>

namespace skald::tools {
namespace {

constexpr std::string_view lock_not_available{"55P03"};

constexpr std::string_view or_take_fewer =
    ", or lower SKALD_LANES and SKALD_HTTP_LANES; each process takes lanes + HTTP lanes + 5, and 4 more for external "
    "or waiting steps";

// If a crash loses a record, a step runs twice: everything else depends on these settings.
void examine_settings(pqxx::row const& server, findings& found)
{
    std::string const sync = server["synchronous_commit"].c_str();
    add(found, "synchronous_commit", sync == "on" || sync == "remote_apply", health::warning,
        "synchronous_commit is " + sync,
        "Skald's own sessions raise it to on; set it for everything else that writes here, or a crash loses commits");
    std::string const fsync = server["fsync"].c_str(), pages = server["full_page_writes"].c_str();
    add(found, "fsync", fsync == "on", health::problem, "fsync is " + fsync,
        "turn it on: a crash may corrupt everything");
    add(found, "full_page_writes", pages == "on", health::warning, "full_page_writes is " + pages,
        "turn it on, unless the disks write 8 KiB whole or not at all");
    std::string const isolation = server["default_transaction_isolation"].c_str();
    add(found, "isolation", isolation == "read committed", health::warning,
        "default_transaction_isolation is " + isolation,
        "Skald's own sessions use read committed; a program that calls skald.claim() must too");
    auto const idle_ms = server["idle_timeout_ms"].as<std::int64_t>();
    add(found, "idle transactions", idle_ms > 0 && idle_ms <= 300'000, health::warning,
        idle_ms == 0
            ? std::string{"idle_in_transaction_session_timeout is off: Skald's own sessions set 30 s, others may hold "
                          "keys and VACUUM up indefinitely"}
            : fmt::format("idle_in_transaction_session_timeout is {} ms", idle_ms),
        "set it for every role that writes to this database, 30 s for instance");
}

void examine_node(pqxx::connection& c, pqxx::row const& server, findings& found)
{
    bool const standby = server["is_standby"].as<bool>(),
               read_only = server["default_transaction_read_only"].c_str() == std::string{"on"};
    add(found, "server", !standby && !read_only, health::problem,
        fmt::format("{}, PostgreSQL {}{}", postgres::place_of(c), server["version"].c_str(),
                    standby     ? ", a standby"
                    : read_only ? ", read-only"
                                : ", takes writes"),
        "name the primary in DATABASE_URL, or all nodes: host=a,b target_session_attrs=read-write");
    auto const used = server["connections"].as<int>(),
               free = server["connections_max"].as<int>() - server["connections_reserved"].as<int>() - used;
    add(found, "connections", free >= 20, free <= 3 ? health::problem : health::warning,
        fmt::format("{} of {} connections are taken", used, server["connections_max"].c_str()),
        "raise max_connections" + std::string{or_take_fewer});
    std::string const standbys = server["standbys"].c_str();
    if (!standbys.empty())
        add(found, "synchronous standbys", server["standbys_connected"].as<int>() > 0, health::problem,
            fmt::format("synchronous_standby_names is '{}', and {} are connected", standbys,
                        server["standbys_connected"].c_str()),
            "every COMMIT waits for one: start it, or take it off the list");
}

void examine_role_limits(pqxx::connection& c, findings& found)
{
    for (auto const& row : run(c, q::doctor_role_limits)) {
        auto const left = row["most"].as<int>() - row["taken"].as<int>();
        add(found, "connections", left >= 5, left <= 0 ? health::problem : health::warning,
            fmt::format("{} of {} connections of role {} are taken", row["taken"].c_str(), row["most"].c_str(),
                        row["role"].c_str()),
            fmt::format("raise its limit: ALTER ROLE {} CONNECTION LIMIT N{}", row["role"].c_str(), or_take_fewer));
    }
}

void examine_clock(pqxx::connection& c, findings& found)
{
    using std::chrono::system_clock;
    auto const seconds = [](system_clock::time_point t) {
        return std::chrono::duration<double>(t.time_since_epoch()).count();
    };
    auto const before = seconds(system_clock::now());
    auto const theirs = run(c, q::doctor_clock)[0]["seconds"].as<double>();
    auto const apart = std::abs(theirs - (before + seconds(system_clock::now())) / 2);
    add(found, "clock", apart < 2, health::warning,
        fmt::format("this machine's clock and the server's are {:.3f} s apart", apart),
        "Skald takes all times from the servers; check that every machine keeps time, for logs and for order between "
        "servers");
}

void examine_pooler(pqxx::connection& c, std::string const& conninfo, findings& found)
try {
    auto const between = postgres::find_pooling(c, conninfo);
    if (between == postgres::pooling::transactions) {
        found.push_back(
            {"pooler", health::problem,
             "a pooler in transaction mode is in front of the database: what Skald sets, prepares and locks on a "
             "session is lost; its workers refuse to start",
             "connect to the server itself, or let the pooler work by session (pgbouncer: pool_mode = session)"});
    }
    else {
        add(found, "pooler", between == postgres::pooling::none, health::warning,
            between == postgres::pooling::none
                ? "connected to the server itself"
                : "a pooler is in front of the database, in session mode as far as can be seen",
            "check that it keeps pooling by session, with a pool of lanes + HTTP lanes + 5 for each process");
    }
}
catch (pqxx::broken_connection const& error) {
    found.push_back({"pooler", health::problem, error.what(),
                     "give it a pool of lanes + HTTP lanes + 5 for each process, or connect to the server itself"});
}

void examine_xmin(pqxx::connection& c, findings& found)
{
    auto const rows = run(c, q::doctor_xmin);
    if (rows.empty())
        found.push_back({"vacuum", health::ok,
                         "no transaction that this role may see has kept VACUUM from removing dead rows for over 5 s",
                         ""});
    for (auto const& row : rows) {
        auto const seconds = row["seconds"];
        add(found, "vacuum", !seconds.is_null() && seconds.as<std::int64_t>() < 60, health::warning,
            fmt::format("{} keeps VACUUM from removing dead rows{}", row["holder"].c_str(),
                        seconds.is_null() ? "" : fmt::format(", for {} s now", seconds.c_str())),
            "end it: until then the tables grow, and the rate is up to a sixth lower (docs/performance.md)");
    }
}

void examine_outbox(pqxx::connection& c, findings& found)
{
    auto const outbox = run(c, q::outbox_totals)[0];
    auto const age = outbox["oldest_seconds"].as<std::int64_t>();
    auto const reasons = run(c, q::outbox_by_reason);
    add(found, "outbox", age < 60, health::warning,
        fmt::format("{} messages wait, the oldest for {} s", outbox["messages"].c_str(), age) +
            (reasons.empty() ? std::string{}
                             : fmt::format("; {} to {}: {}", reasons[0]["messages"].c_str(),
                                           reasons[0]["destination"].c_str(), reasons[0]["error"].c_str())),
        "`skald outbox status` says for which destinations, and why");
    if (outbox["due"].as<std::int64_t>() > 10'000 || outbox["messages"].as<std::int64_t>() > 100'000)
        found.push_back({"purge", health::warning,
                         "stopped: over 10,000 messages in the outbox are due, or over 100,000 wait there",
                         "see to the outbox first: the records of ended sagas stay until it is shorter"});
    for (auto const& row : run(c, q::outbox_barred)) {
        bool const is_broker = row["is_broker"].as<bool>();
        found.push_back({"refused messages", health::problem,
                         fmt::format("{} {} messages, one for {} since {} s: {}",
                                     is_broker ? "the broker refuses" : "somebody has to act before they go:",
                                     row["messages"].c_str(), row["destination"].c_str(), row["seconds"].c_str(),
                                     row["error"].c_str()),
                         is_broker ? "they are tried again every few minutes, and nothing else waits for them"
                                   : "do what that says: until then they wait, and are tried again by themselves"});
    }
}

void examine_events(pqxx::connection& c, bool has_broker, findings& found)
{
    std::string const bind = has_broker ? "bind a queue to the exchange `skald` with that key (over Kafka: make the "
                                          "topic `skald.KEY`, or give this user `Write` on it)"
                                        : "let a service bind a handler to that key, and name its database in "
                                          "SKALD_PEERS_FILE (docs/transports.md, \"Who is bound\")";
    auto const rows = run(c, q::doctor_unrouted);
    if (rows.empty()) found.push_back({"events", health::ok, "no message of yours is without a queue", ""});
    for (auto const& row : rows) {
        auto what = fmt::format(
            "NO_ROUTE: no queue is bound for `{}` since {} s; {} messages of yours are kept, {} were dropped",
            row["destination"].c_str(), row["seconds"].c_str(), row["kept"].c_str(), row["dropped"].c_str());
        found.push_back({"events", health::warning, std::move(what),
                         bind + ", or publish with skald::unrouted::drop, or stop publishing: see docs/events.md"});
    }
}

void examine_contention(pqxx::connection& c, findings& found)
{
    auto const rows = run(c, q::doctor_contention), locked_out = run(c, q::doctor_locked_out);
    for (auto const& row : rows) {
        found.push_back(
            {"contention", health::warning,
             fmt::format("step {} contends for rows: {} transactions were rolled back because of others, the last at "
                         "{}; it runs on {} lanes of a process with {} deliveries in a transaction{}",
                         row["step"].c_str(), row["conflicts"].c_str(), row["last_conflict_at"].c_str(),
                         row["lanes"].c_str(), row["batch"].c_str(),
                         row["takes_turns"].as<bool>() ? ", one at a time in this database" : ""),
             "nothing is lost; to make it faster declare step_options{.serial_by}, or lock in one order: see "
             "docs/contention.md"});
    }
    for (auto const& row : locked_out)
        found.push_back({"contention", health::warning,
                         fmt::format("step {} waited for a lock of another session for longer than "
                                     "SKALD_LOCK_TIMEOUT_MS, at {}",
                                     row["step"].c_str(), row["changed_at"].c_str()),
                         "nothing is lost; `locks` names sessions that still hold locks: see docs/contention.md"});
    if (rows.empty() && locked_out.empty())
        found.push_back({"contention", health::ok,
                         "in the last hour, fewer than 10 transactions of any step were rolled back because of others; "
                         "those that only waited for a lock are not counted: see `locks`",
                         ""});
}

void examine_owner(postgres::ownership const& owner, findings& found)
{
    add(found, "owner", !owner.service.empty(), health::warning,
        owner.service.empty() ? "no service owns the database" : "the service " + owner.service,
        "start its worker once, or run `skald migrate --service NAME`");
    add(found, "copy", !owner.is_copy, health::problem,
        owner.is_copy ? "a copy, or restored from a backup: what was done since that was made is missing"
                      : "where it was made; rows that were restored into it are not seen",
        "see docs/repair.md, \"A database from a backup\"; its worker does not start before you have run `skald "
        "migrate "
        "--service " +
            owner.service + " --adopt`");
}

void examine_schema_in_use(pqxx::connection& c, expected& at_broker, findings& found)
{
    examine_part(c, found, "owner", [&] {
        for (auto const& row : run(c, q::doctor_owner))
            at_broker.owner = {row["name"].c_str(), row["id"].c_str(), {}, row["is_copy"].as<bool>()};
        examine_owner(at_broker.owner, found);
    });
    examine_part(c, found, "handlers", [&] { at_broker.handlers = handlers_of(c); });
    examine_part(c, found, "services", [&] {
        for (auto const& row : run(c, q::doctor_services)) at_broker.others.emplace_back(row["service"].c_str());
    });
    examine_part(c, found, "privileges", [&] { examine_privileges(c, at_broker.owner.service, found); });
    examine_part(c, found, "outbox", [&] { examine_outbox(c, found); });
    examine_work(c, at_broker.owner.service, found);
    examine_part(c, found, "events", [&] { examine_events(c, at_broker.has_broker, found); });
    examine_part(c, found, "contention", [&] { examine_contention(c, found); });
    examine_part(c, found, "locks", [&] { examine_locks(c, at_broker.owner.service, found); });
}

void examine(pqxx::connection& c, std::string const& conninfo, expected& at_broker, findings& found)
{
    examine_part(c, found, "server", [&] {
        auto const server = run(c, q::doctor_server);
        examine_node(c, server[0], found);
        examine_settings(server[0], found);
    });
    examine_part(c, found, "connections", [&] { examine_role_limits(c, found); });
    examine_part(c, found, "pooler", [&] { examine_pooler(c, conninfo, found); });
    examine_part(c, found, "clock", [&] { examine_clock(c, found); });
    examine_part(c, found, "vacuum", [&] { examine_xmin(c, found); });
    if (examine_schema(c, found)) examine_schema_in_use(c, at_broker, found);
}

}  // namespace

std::vector<ports::handler_queue> handlers_of(pqxx::connection& c)
{
    std::vector<ports::handler_queue> all;
    for (auto const& row : run(c, q::doctor_handlers)) {
        std::string const name = row["handler"].c_str();
        if (all.empty() || all.back().handler != name) all.push_back({name});
        if (row["exchange"].is_null()) continue;
        all.back().bindings.push_back({.routing_key = row["routing_key"].c_str(),
                                       .exchange = row["exchange"].c_str(),
                                       .type = row["type"].c_str()});
    }
    return all;
}

finding not_examined(std::string check, std::exception const& error)
{
    auto const* const refused = dynamic_cast<pqxx::sql_error const*>(&error);
    std::string const state = refused != nullptr ? refused->sqlstate() : "", why = error.what();
    if (state == lock_not_available)
        return {std::move(check), health::problem, "not examined: a table of Skald's was locked for too long",
                "run `skald doctor` again: it says by whom for as long as it is locked"};
    // Before it, a severity; after its first line, what is about the query.
    std::size_t const begin = refused != nullptr && why.starts_with("ERROR:  ") ? 8 : 0;
    return {std::move(check), health::problem,
            "not examined: " + (refused != nullptr ? why.substr(begin, why.find('\n') - begin) : why),
            dynamic_cast<pqxx::insufficient_privilege const*>(&error) != nullptr
                ? "`privileges` says what gives the role its rights"
                : ""};
}

finding not_examined(pqxx::connection& c, std::string check, std::exception const& error)
{
    auto made = not_examined(std::move(check), error);
    auto const* const refused = dynamic_cast<pqxx::sql_error const*>(&error);
    if (refused == nullptr || refused->sqlstate() != lock_not_available) return made;
    auto const by = locked_tables(c);
    if (by.empty()) return made;
    made.remedy = by.front().remedy;
    for (auto const& one : by) made.means += "; " + one.means;
    return made;
}

expected examine_database(std::string const& url, bool has_broker, findings& found)
{
    expected at_broker;
    at_broker.has_broker = has_broker;
    try {
        // Connects to any node: if it accepts no writes, that is a finding, and no reason to report nothing.
        auto const conninfo = postgres::with_defaults(url, "skald/doctor", "any");
        pqxx::connection c{conninfo};
        examine(c, conninfo, at_broker, found);
    }
    catch (pqxx::failure const& error) {
        found.push_back({"database", health::problem,
                         "can't be examined: " + postgres::why_not_connected(url, error.what()),
                         std::string{postgres::remedy_of_no_connection(error.what())}});
    }
    return at_broker;
}

}  // namespace skald::tools
