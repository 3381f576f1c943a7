#include "strangers.hpp"

#include "plan.hpp"

#include "support/amqp_hands.hpp"

#ifdef ORDER_STORM_OVER_KAFKA
#include "kafka/kafka_transport.hpp"
#include "support/recording_logger.hpp"
#endif

#include <array>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <pqxx/pqxx>
#include <sys/socket.h>
#include <unistd.h>

namespace order_storm {
namespace {

using skald::rig::pick;

constexpr int door_connections = 300;
constexpr int forged_at_once = 40;
constexpr int orders_at_once = 12;
constexpr auto drop_storm_index = "DROP INDEX IF EXISTS skald.storm_index, public.storm_index";

/// Runs it; nothing if the server is down.
template <class Act>
void unless_away(std::string const& database_url, Act const& act)
try {
    pqxx::connection connection{database_url};
    act(connection);
}
catch (pqxx::failure const&) {
    // The server, or this session, was struck too.
}

std::string a_table(pqxx::connection& connection, random_source& random)
{
    pqxx::nontransaction tx{connection};
    auto const all = tx.exec("SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
                             "WHERE schemaname IN ('skald', 'public') ORDER BY 1");
    return all.at(pick(random, pqxx::result::size_type{0}, all.size() - 1))[0].c_str();
}

int connect_to(std::uint16_t port)
{
    int const socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (socket >= 0 && ::connect(socket, reinterpret_cast<sockaddr const*>(&where), sizeof where) == 0) return socket;
    ::close(socket);
    return -1;
}

std::string bytes_for_the_door(random_source& random)
{
    switch (pick(random, 0, 4)) {
    case 0: return "POST /orders HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: half";
    case 1: return "POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 100000\r\nIdempotency-Key: slow\r\n\r\n{";
    case 2: return "GET /sagas/x HTTP/1.1\r\nHost: shop\r\n\r\nGET /sagas/y HTTP/1.1\r\nHost: shop\r\n\r\n";
    case 3: return "POST /orders HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
    default: break;
    }
    std::string noise;
    for (int i = 0; i < 200; ++i) noise += static_cast<char>(pick(random, 0, 255));
    return noise;
}

skald::test::raw_message forged(random_source& random)
{
    skald::test::raw_message message;
    message.set_id(forged_id + std::to_string(random()));
    message.body = pick(random, 0, 1) == 0 ? "{" : std::string(pick(random, std::size_t{0}, std::size_t{4096}), '\xff');
    if (pick(random, 0, 1) == 0) message.set_type(pick(random, 0, 1) == 0 ? "charge-payment" : "skald.progress");
    if (pick(random, 0, 1) == 0) message.set("x-saga-attempt", std::to_string(random()));
    if (pick(random, 0, 1) == 0) message.set("x-idempotency-key", "forged:no-such-step");
    if (pick(random, 0, 2) == 0) message.set("x-saga-itinerary", std::string(300, 'x'));
    return message;
}

#ifdef ORDER_STORM_OVER_KAFKA
void send_by_kafka(std::string const& brokers, std::vector<skald::test::raw_message> const& all)
{
    std::vector<skald::ports::outgoing> rows;
    for (auto const& one : all) {
        skald::core::message m{one.destination, one.id(), one.type(), "application/json", {}, one.body};
        for (auto const& entry : one.headers) {
            std::string const name{skald::test::view(entry.key)};
            m.headers.emplace_back(name, one.header(name));
        }
        rows.push_back({std::ssize(rows), std::move(m)});
    }
    skald::test::recording_logger quiet;
    skald::kafka_detail::options where;
    where.brokers = brokers;
    auto const publisher = skald::kafka_detail::kafka_transport{where, quiet}.open_publisher();
    if (!publisher->available()) return;
    publisher->send(rows, std::chrono::seconds{5});
    for (std::size_t told = 0; told < rows.size();) told += publisher->collect(std::chrono::seconds{5}).size();
}
#endif

}  // namespace

void lock_a_table(std::string const& database_url, random_source& random, milliseconds lasts)
{
    unless_away(database_url, [&](pqxx::connection& connection) {
        auto const table = a_table(connection, random);
        pqxx::work tx{connection};
        tx.exec(fmt::format("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", table));
        std::this_thread::sleep_for(lasts);  // the fault itself
    });
}

void rewrite_a_table(std::string const& database_url, random_source& random)
{
    unless_away(database_url, [&](pqxx::connection& connection) {
        auto const table = a_table(connection, random);
        pqxx::nontransaction tx{connection};
        switch (pick(random, 0, 2)) {
        case 0: tx.exec("VACUUM FULL " + table); return;
        case 1: tx.exec("REINDEX TABLE " + table); return;
        default:
            tx.exec(drop_storm_index);  // left by a storm that was struck itself
            tx.exec(fmt::format("DO $$ BEGIN EXECUTE format('CREATE INDEX storm_index ON {0} (%I)', (SELECT attname "
                                "FROM pg_attribute WHERE attrelid = '{0}'::regclass AND attnum = 1)); END $$",
                                table));
            tx.exec(drop_storm_index);
        }
    });
}

void issue_commands(std::string const& database_url, random_source& random, milliseconds lasts)
{
    unless_away(database_url, [&](pqxx::connection& connection) {
        pqxx::nontransaction tx{connection};
        auto const running = tx.exec(fmt::format("SELECT scope, key FROM skald.saga WHERE status = 'running' "
                                                 "ORDER BY md5(key) LIMIT {}",
                                                 orders_at_once));
        auto const give = [&](char const* action, pqxx::row const& saga) {
            tx.exec(fmt::format("SELECT skald.request_control('{}', {}, {}, 'the storm', 'the storm')", action,
                                tx.quote(saga[0].c_str()), tx.quote(saga[1].c_str())));
        };
        std::vector<pqxx::row> paused;
        for (auto const& saga : running) {
            if (pick(random, 0, 1) == 0) give("cancel", saga);
            else give("pause", saga), paused.push_back(saga);
        }
        std::this_thread::sleep_for(lasts);  // the fault itself
        for (auto const& saga : paused) give("resume", saga);
    });
}

void resume_all(std::string const& database_url)
{
    pqxx::connection connection{database_url};
    pqxx::nontransaction{connection}.exec(
        "SELECT skald.request_control('resume', s.scope, s.key, 'the storm is over', 'the storm') "
        "FROM skald.saga s JOIN skald.control c USING (scope, key) WHERE s.finished_at IS NULL AND c.action = 'pause'");
}

int replay_deadly(std::string const& database_url)
{
    int sent = 0;
    unless_away(database_url, [&](pqxx::connection& c) {
        pqxx::nontransaction tx{c};
        auto const refused = tx.exec(
            fmt::format("SELECT skald.replay_parked(id, 'storm') FROM skald.parked WHERE reason = 'delivery_limit' "
                        "AND convert_from(body, 'UTF8')::jsonb->>'customer' LIKE '{}%'",
                        deadly));
        for (auto const& row : refused) sent += row[0].is_null() ? 1 : 0;
    });
    return sent;
}

void crowd_the_door(std::uint16_t port, random_source& random, milliseconds lasts)
{
    std::vector<int> sockets;
    for (int i = 0; i < door_connections; ++i) {
        int const socket = connect_to(port);
        if (socket < 0) continue;
        auto const bytes = bytes_for_the_door(random);
        if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
            ::close(socket);
            continue;
        }
        sockets.push_back(socket);
    }
    std::this_thread::sleep_for(lasts);  // the fault itself
    for (int const socket : sockets) ::close(socket);
}

void forge_messages(settings const& chosen, std::string const& service, random_source& random)
try {
    std::vector<skald::test::raw_message> all;
    for (int i = 0; i < forged_at_once; ++i) {
        all.push_back(forged(random));
        all.back().destination = service;
    }
#ifdef ORDER_STORM_OVER_KAFKA
    if (chosen.transport == "kafka") return send_by_kafka(chosen.shop.broker, all);
#endif
    skald::test::amqp_hands hands{skald::test::amqp_place{chosen.shop.broker}};
    for (auto const& one : all) hands.send(one);
}
catch (std::runtime_error const&) {
    // The broker was struck too.
}

void poison_charges(std::string const& database_url, bool heals)
{
    pqxx::connection connection{database_url};
    pqxx::nontransaction{connection}.exec(
        "CREATE SEQUENCE storm_poison_doses;"  // which no rollback takes back
        "CREATE FUNCTION storm_poison() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NOT (TG_ARGV[0]::boolean AND nextval('storm_poison_doses') % 3 = 0) THEN"
        " PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER storm_poison BEFORE INSERT ON charge FOR EACH ROW "
        "WHEN (NEW.kind = 'charge' AND NEW.cents % " +
        std::to_string(poisonous_cents) + " = 0) EXECUTE FUNCTION storm_poison(" + (heals ? "true" : "false") + ")");
}

}  // namespace order_storm
