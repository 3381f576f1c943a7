// What the database says for /metrics, and how often steps were delivered.
#include "admin/delivery_recorder.hpp"
#include "admin/figure_reader.hpp"
#include "admin/maintenance.hpp"
#include "support/database.hpp"
#include "support/recording_logger.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <thread>

using namespace skald;
using namespace std::chrono_literals;

namespace {

/// The figures of a database, as the maintenance thread reads them.
struct reader
{
    explicit reader(test::database const& db) : connection{{.url = db.url()}} {}

    metrics::database_figures::seen read()
    {
        by.read(connection, "-infinity");
        return figures.now();
    }

    postgres::connection connection;
    metrics::database_figures figures;
    admin::figure_reader by{figures};
};

double value_of(std::vector<metrics::figures::by_two> const& all, std::string const& first,
                std::string const& second = {})
{
    for (auto const& one : all)
        if (one.first == first && one.second == second) return one.value;
    return -1;
}

std::string seen_of(test::database const& db)
{
    return db.rows("SELECT key, step, delivered, duplicates FROM skald.deliveries_seen ORDER BY 1, 2");
}

/// What an order's first step's delivery would count as.
runtime::deliveries_seen::step charge_of(std::string const& key)
{
    return {"", key, "charge-payment", "orders"};
}

}  // namespace

TEST_CASE("the figures of a database are what its tables hold")
{
    test::database const db;
    db.run("INSERT INTO skald.saga (scope, key, definition, data, itinerary, status, created_at) VALUES"
           " ('', 'a', 'trip', '{}', 'x', 'running', clock_timestamp() - interval '1 hour'),"
           " ('', 'b', 'trip', '{}', 'x', 'running', clock_timestamp()),"
           " ('', 'c', 'trip', '{}', 'x', 'stuck', clock_timestamp()),"
           " ('', 'd', 'other', '{}', 'x', 'compensating', clock_timestamp())");
    db.run("SELECT skald.enqueue('x', 'x', 'x', '', delay => '1 h') FROM generate_series(1, 3)");
    db.run("SELECT skald.enqueue('x', 'x', 'x', '') FROM generate_series(1, 2)");
    db.run("INSERT INTO skald.parked (reason, body, fingerprint) VALUES ('forged', '', sha256('a')), ('forged', '', "
           "sha256('b'))");
    reader r{db};
    auto const seen = r.read();
    REQUIRE(seen.latest);
    auto const& all = *seen.latest;
    CHECK(value_of(all.sagas, "trip", "running") == 2);
    CHECK(value_of(all.sagas, "trip", "stuck") == 1);
    CHECK(value_of(all.sagas, "other", "compensating") == 1);
    CHECK(value_of(all.oldest_sagas, "trip", "running") >= 3'600);
    CHECK(value_of(all.outbox_rows, "later") == 3);
    CHECK(value_of(all.outbox_rows, "due") == 2);
    CHECK(value_of(all.outbox_rows, "refused") == 0);
    CHECK(value_of(all.parked, "forged") == 2);
    CHECK(all.unrouted == 0);
    CHECK(all.deadlocks);
}

TEST_CASE("sagas that are stuck or unknown are counted, however many older ones wait for something")
{
    test::database const db;
    db.run("INSERT INTO skald.saga (scope, key, definition, data, itinerary, status, created_at)"
           " SELECT '', 'waits-' || n, 'trip', '{}', 'x', 'running', clock_timestamp() - interval '1 hour'"
           "   FROM generate_series(1, 100000) AS n");
    db.run("INSERT INTO skald.saga (scope, key, definition, data, itinerary, status)"
           " VALUES ('', 'a', 'trip', '{}', 'x', 'stuck'), ('', 'b', 'trip', '{}', 'x', 'unknown')");
    reader r{db};
    REQUIRE(testing::wait_until([&] { return r.read().latest.has_value(); }));  // within the time that a statement has
    auto const seen = r.figures.now();
    CHECK(value_of(seen.latest->sagas, "trip", "stuck") == 1);
    CHECK(value_of(seen.latest->sagas, "trip", "unknown") == 1);
    CHECK(value_of(seen.latest->sagas, "trip", "running") == 100'000);
    CHECK(value_of(seen.latest->oldest_sagas, "trip", "stuck") < 3'600);
}

TEST_CASE("a saga that waits for a signal or a time is not the oldest, and one that should go on is")
{
    test::database const db;
    db.run("INSERT INTO skald.saga (scope, key, definition, data, itinerary, created_at) VALUES"
           " ('', 'waits', 'trip', '{}', 'x', clock_timestamp() - interval '2 days'),"
           " ('', 'calls', 'trip', '{}', 'x', clock_timestamp() - interval '1 hour')");
    db.run("INSERT INTO skald.started"
           "     (scope, key, step, kind, due_at, lease, message_id, type, content_type, body, headers)"
           " SELECT '', key, 'approve', kind, clock_timestamp() + interval '1 h', interval '1 min', 'm', 't', 'json', "
           "'', '{}'"
           "   FROM (VALUES ('waits', 'wait'), ('calls', 'call')) AS s(key, kind)");
    reader r{db};
    auto const seen = r.read();
    REQUIRE(seen.latest);
    CHECK(value_of(seen.latest->sagas, "trip", "running") == 2);
    auto const oldest = value_of(seen.latest->oldest_sagas, "trip", "running");
    CHECK(oldest >= 3'600);
    CHECK(oldest < 86'400);
    db.run("DELETE FROM skald.saga WHERE key = 'calls'");
    CHECK(value_of(r.read().latest->oldest_sagas, "trip", "running") == -1);
}

TEST_CASE("a message that is refused again and again is as late as it is old")
{
    test::database const db;
    db.run("SELECT skald.enqueue('x', 'x', 'x', '', delay => '1 min')");
    reader r{db};
    CHECK(r.read().latest->outbox_overdue_seconds == 0);
    db.run("UPDATE skald.outbox SET error = 'payments: away', created_at = clock_timestamp() - interval '1 hour'");
    auto const seen = r.read();
    CHECK(value_of(seen.latest->outbox_rows, "refused") == 1);
    CHECK(seen.latest->outbox_overdue_seconds >= 3'600);
}

TEST_CASE("a message that is due at no finite time does not keep the figures from being read")
{
    test::database const db;
    db.run("SELECT skald.enqueue('x', 'x', 'x', '')");
    db.run("UPDATE skald.outbox SET due_at = '-infinity'");
    reader r{db};
    auto const seen = r.read();
    REQUIRE(seen.latest);
    CHECK(value_of(seen.latest->outbox_rows, "due") == 1);
    CHECK(seen.latest->outbox_overdue_seconds == 0);
}

TEST_CASE("while a table is locked the figures stay as they were, and the connection is good afterwards")
{
    test::database const db;
    reader r{db};
    REQUIRE(r.read().latest);
    {
        pqxx::connection other{db.url()};
        pqxx::work lock{other};
        lock.exec("LOCK TABLE skald.saga");
        db.run("SELECT skald.enqueue('x', 'x', 'x', '')");
        CHECK(value_of(r.read().latest->outbox_rows, "due") == 0);
    }
    CHECK(value_of(r.read().latest->outbox_rows, "due") == 1);
}

TEST_CASE("sagas that ended are counted once, by definition, end and duration, from when the reader began")
{
    test::database const db;
    auto const ended = [&](std::string const& key, std::string const& status, std::string const& took,
                           std::string const& ago) {
        db.run("INSERT INTO skald.saga (scope, key, definition, data, itinerary, status, created_at, finished_at)"
               " SELECT '', '" +
               key + "', 'trip', '{}', 'x', '" + status + "', t - interval '" + took +
               "', t FROM"
               " (SELECT clock_timestamp() - interval '" +
               ago + "' AS t) AS w");
    };
    ended("before", "completed", "1 s", "1 hour");
    reader r{db};
    r.read();  // from here on, less two seconds
    ended("a", "completed", "20 ms", "1.9 s");
    ended("b", "completed", "2 h", "1.9 s");
    ended("c", "compensated", "20 ms", "1.9 s");
    auto const count = [&](std::string const& end) {
        auto const seen = r.read();
        auto const found = seen.ended.find({"trip", end});
        if (found == seen.ended.end()) return std::uint64_t{};
        auto const& counts = found->second.counts;
        return std::accumulate(counts.begin(), counts.end(), std::uint64_t{});
    };
    CHECK(testing::wait_until([&] { return count("completed") == 2 && count("compensated") == 1; }));
    r.read();
    CHECK(count("completed") == 2);
    auto const all = r.figures.now().ended.at({"trip", "completed"});
    CHECK(all.counts.at(2) == 1);   // up to 25 ms
    CHECK(all.counts.back() == 1);  // above an hour
    CHECK(all.seconds == doctest::Approx(7'200.02));
}

TEST_CASE("many sagas that ended since the last time are counted once, also while another table is locked")
{
    test::database const db;
    reader r{db};
    r.read();
    db.run("INSERT INTO skald.saga (scope, key, definition, data, itinerary, status, created_at, finished_at)"
           " SELECT '', 'trip-' || n, 'trip', '{}', 'x', 'completed', t, t"
           "   FROM generate_series(1, 25000) AS n, LATERAL (SELECT clock_timestamp() - interval '1.9 s' AS t) AS w");
    pqxx::connection other{db.url()};
    pqxx::work lock{other};
    lock.exec("LOCK TABLE skald.parked");
    auto const counted = [&] {
        auto const seen = r.read();
        auto const found = seen.ended.find({"trip", "completed"});
        if (found == seen.ended.end()) return std::uint64_t{};
        return std::accumulate(found->second.counts.begin(), found->second.counts.end(), std::uint64_t{});
    };
    CHECK(testing::wait_until([&] { return counted() >= 25'000; }));
    CHECK(counted() == 25'000);
}

TEST_CASE("deliveries after the first are added to what is known of a step, and steps without a record are not kept")
{
    test::database const db;
    db.run("INSERT INTO skald.idempotency (scope, key, step, home) VALUES ('', 'o-1', 'charge-payment', 'orders')");
    postgres::connection c{{.url = db.url()}};
    runtime::deliveries_seen seen;
    seen.met_again(charge_of("o-1"), true);
    seen.met_again(charge_of("o-1"), false);
    seen.met_again(charge_of("unknown"), true);
    admin::record_deliveries(c, seen);
    CHECK(seen_of(db) == "o-1|charge-payment|3|1");
    seen.met_again(charge_of("o-1"), true);
    admin::record_deliveries(c, seen);
    admin::record_deliveries(c, seen);  // nothing new
    CHECK(seen_of(db) == "o-1|charge-payment|4|2");
}

TEST_CASE("counts that can't be written now are written later")
{
    test::database const db;
    db.run("INSERT INTO skald.idempotency (scope, key, step, home) VALUES ('', 'o-1', 'charge-payment', 'orders')");
    postgres::connection c{{.url = db.url()}};
    runtime::deliveries_seen seen;
    seen.met_again(charge_of("o-1"), true);
    {
        pqxx::connection other{db.url()};
        pqxx::work lock{other};
        lock.exec("LOCK TABLE skald.deliveries_seen");
        admin::record_deliveries(c, seen);
    }
    CHECK(seen_of(db).empty());
    seen.met_again(charge_of("o-1"), true);
    admin::record_deliveries(c, seen);
    CHECK(seen_of(db) == "o-1|charge-payment|3|2");
}

TEST_CASE("what was counted of a step goes with its record, and another step's stays")
{
    test::database const db;
    db.run("INSERT INTO skald.idempotency (scope, key, step, home) VALUES ('', 'o-1', 'charge-payment', 'orders'),"
           " ('', 'o-2', 'charge-payment', 'orders')");
    postgres::connection c{{.url = db.url()}};
    runtime::deliveries_seen seen;
    seen.met_again(charge_of("o-1"), true);
    seen.met_again(charge_of("o-2"), true);
    admin::record_deliveries(c, seen);
    db.run("DELETE FROM skald.idempotency WHERE key = 'o-1'");
    CHECK(seen_of(db) == "o-2|charge-payment|2|1");
}

TEST_CASE("figures that can't be read are an event, once for each change")
{
    test::database const db;
    runtime::backlog backlog;
    metrics::database_figures figures;
    runtime::deliveries_seen seen;
    runtime::stop_flag stop;
    test::recording_logger log;
    admin::maintenance_options options;
    options.purge = false;
    options.reads_figures = true;
    options.figures_every = 5ms;
    admin::maintenance keeper{options, {.url = db.url()}, backlog, figures, seen, stop, log, std::mt19937_64{1}};
    std::jthread const thread{[&] { keeper.run(); }};
    REQUIRE(testing::wait_until([&] { return figures.now().latest.has_value(); }));
    db.run("ALTER TABLE skald.parked RENAME TO locked_away");
    // Up to half a minute between two readings, on a busy machine.
    CHECK(testing::wait_until([&] { return log.has(" figures.unknown "); }, 3min));
    CHECK(log.has("skald.parked"));
    CHECK(figures.now().is_connected);
    db.run("ALTER TABLE skald.locked_away RENAME TO parked");
    CHECK(testing::wait_until([&] { return log.has(" figures.known"); }, 3min));
    CHECK(log.count(" figures.unknown ") == 1);
    stop.stop();
}

TEST_CASE("a purge that fails does not say that the database is away")
{
    test::database const db;
    db.run("ALTER TABLE skald.ended RENAME TO locked_away");
    runtime::backlog backlog;
    metrics::database_figures figures;
    runtime::deliveries_seen seen;
    runtime::stop_flag stop;
    test::recording_logger log;
    admin::maintenance_options options;
    options.purge_every = 5ms;
    admin::maintenance keeper{options, {.url = db.url()}, backlog, figures, seen, stop, log, std::mt19937_64{1}};
    std::jthread const thread{[&] { keeper.run(); }};
    CHECK(testing::wait_until([&] { return log.count(" purge.failed ") >= 2; }));
    CHECK(log.has("skald.ended"));
    CHECK(figures.now().is_connected);
    stop.stop();
    db.run("ALTER TABLE skald.locked_away RENAME TO ended");
}
