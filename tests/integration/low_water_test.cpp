// The relay's search begins where the outbox is known to be empty: never beyond a row, and never
// over what was sent long ago.
#include "admin/maintenance.hpp"
#include "postgres/literal.hpp"
#include "postgres/postgres_outbox.hpp"
#include "skald_queries.hpp"
#include "support/confirm_rows.hpp"
#include "support/database.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <thread>

using namespace std::chrono_literals;
namespace queries = skald::queries;
using skald::postgres::execute;
using skald::postgres::low_water;
using skald::test::confirm_all;
using skald::test::database;

namespace {

struct marked_outbox
{
    explicit marked_outbox(std::chrono::milliseconds purge_every = 1h) : mark{std::make_shared<low_water>(purge_every)}
    {
        looks.run(skald::postgres::outbox_plans);
        rows.take(1);  // the first search is from the beginning
    }

    /// As many looks as it takes, each a while after the other.
    void raise()
    {
        std::string const before = mark->mark();
        for (int i = 0; i < 2 || (i < 50 && mark->mark() == before); ++i) mark->raise(looks, now += 1min);
    }

    std::string take()
    {
        std::string keys;
        auto const taken = rows.take(10);
        for (auto const& row : taken) keys += row.message.id + ' ';
        confirm_all(rows, taken);
        return keys;
    }

    /// How many pages a search touches. It takes nothing.
    int pages(std::string const& from)
    {
        return pages_of(looks, execute(queries::take_due{
                                   .search_from = from, .rows_max = 10, .bytes_max = 1'000'000, .mark = from}));
    }

    /// The same of the maintenance's count.
    int pages_of_count(std::string const& from)
    {
        return pages_of(keeps, execute(queries::outbox_is_over{.rows_max = 100'000, .outbox_from = from}));
    }

    /// The same of a purge that finds nothing to do: the fewest of some, for those that are planned
    /// again read the catalogue too. A session's sixth call may get other plans than its first five.
    int pages_of_purge(std::string const& from)
    {
        auto const purge = execute(queries::purge{.retention_days = 30, .sagas_max = 500, .outbox_from = from});
        for (int i = 0; i < 10; ++i) pages_of(keeps, purge);
        auto fewest = std::numeric_limits<int>::max();
        for (int i = 0; i < 10; ++i) fewest = std::min(fewest, pages_of(keeps, purge));
        return fewest;
    }

    static int pages_of(skald::postgres::connection& c, std::string const& statement)
    {
        auto const plan = c.run("BEGIN; EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement);
        c.run("ROLLBACK");
        auto const top = nlohmann::json::parse(plan[0][0].c_str())[0]["Plan"];
        return top["Shared Hit Blocks"].get<int>() + top["Shared Read Blocks"].get<int>();
    }

    void enqueue(std::string const& key) const { db.run("SELECT skald.enqueue('shipping', 's', '" + key + "', '{}')"); }

    /// So many messages come and go.
    void pass(int count)
    {
        db.run("SELECT skald.enqueue('shipping', 's', 'k' || i, '{}') FROM generate_series(1, " +
               std::to_string(count) + ") AS i");
        for (auto taken = rows.take(1'000); !taken.empty(); taken = rows.take(1'000)) confirm_all(rows, taken);
    }

    database const db;
    std::shared_ptr<low_water> mark;
    skald::postgres::postgres_outbox rows{{.url = db.url()}, mark};
    skald::postgres::connection looks{{.url = db.url()}};
    skald::postgres::connection keeps{{.url = db.url()}};  // as the maintenance's: it has no settings of its own
    low_water::clock::time_point now{low_water::clock::now()};
};

/// Somebody's long transaction: no dead row of the outbox can be vacuumed away.
struct held_snapshot
{
    explicit held_snapshot(database const& db) : other{db.url()}
    {
        db.run("ALTER TABLE skald.outbox SET (autovacuum_enabled = off)");
        snapshot.exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
        snapshot.exec("SELECT count(*) FROM skald.outbox");
    }

    pqxx::connection other;
    pqxx::work snapshot{other, "snapshot"};
};

constexpr auto beginning = "-infinity";

}  // namespace

TEST_CASE("R11: what was sent since somebody's snapshot was taken is not walked over by every search")
{
    marked_outbox o;
    held_snapshot const held{o.db};

    o.pass(2'000);
    o.raise();
    auto const from_beginning = o.pages(beginning);
    auto const from_mark = o.pages(o.mark->mark());
    CHECK(from_beginning > 40);
    CHECK(from_mark < 20);
    o.pass(2'000);
    o.raise();
    CHECK(o.pages(beginning) > from_beginning + 20);
    CHECK(o.pages(o.mark->mark()) < 20);
    CHECK(o.pages_of_count(beginning) > from_beginning);
    CHECK(o.pages_of_count(o.mark->mark()) < 20);
}

TEST_CASE("R11: while a snapshot is held, a row is found by its id in a few pages, whatever the planner thinks")
{
    marked_outbox o;
    held_snapshot const held{o.db};
    o.pass(20'000);
    o.raise();
    o.db.run("ANALYZE skald.outbox");  // as autovacuum does: the table counts as empty

    constexpr int rows = 32;
    for (int round = 0; round < 8; ++round) {  // the sixth may get a plan for all
        o.db.run("SELECT skald.enqueue('shipping', 's', 'x' || i, '{}') FROM generate_series(1, " +
                 std::to_string(rows) + ") AS i");
        std::vector<std::int64_t> ids;
        for (auto const& row : o.db.run("SELECT id FROM skald.outbox")) ids.push_back(row[0].as<std::int64_t>());
        REQUIRE(ids.size() == rows);
        CHECK(o.pages(o.mark->mark()) < rows * 20);
        CHECK(o.pages_of(o.looks, execute(queries::delete_confirmed{ids})) < rows * 20);
        CHECK(o.pages_of(o.looks, execute(queries::delete_confirmed_and_free{ids})) < rows * 20);
        o.db.run("DELETE FROM skald.outbox");
    }
}

TEST_CASE("R11: a purge that has nothing to do walks over no dead row")
{
    marked_outbox o;
    held_snapshot const held{o.db};

    auto const without_dead_rows = o.pages_of_purge(beginning);
    o.pass(4'000);
    o.raise();
    CHECK(o.pages_of_purge(beginning) > without_dead_rows + 60);
    CHECK(o.pages_of_purge(o.mark->mark()) < without_dead_rows + 10);
}

TEST_CASE("R11: the maintenance's count begins at the mark, and from the beginning only now and then")
{
    marked_outbox o;
    o.db.run("ALTER TABLE skald.outbox SET (autovacuum_enabled = off)");
    skald::runtime::backlog backlog;
    skald::metrics::database_figures figures;
    skald::runtime::deliveries_seen seen;
    skald::runtime::stop_flag stop;
    skald::core::silent_logger log;
    skald::admin::maintenance_options options;
    options.purge = false;
    options.outbox_max = 3;
    options.measure_every = 1ms;
    skald::admin::maintenance keeper{options, {.url = o.db.url()}, backlog, figures, seen, stop,
                                     log,     std::mt19937_64{1}};
    std::jthread const thread{[&] { keeper.run(); }};
    auto const counts_rows_of = [&](std::string const& due, std::chrono::milliseconds patience = 30s) {
        o.db.run(
            "SELECT skald.enqueue('x', 'x', 'x', '') FROM generate_series(1, 4); UPDATE skald.outbox SET due_at = " +
            due);
        bool const counted = skald::testing::wait_until([&] { return backlog.is_over(); }, patience);
        o.db.run("DELETE FROM skald.outbox");
        REQUIRE(skald::testing::wait_until([&] { return !backlog.is_over(); }));
        return counted;
    };
    // Until the mark is raised, about once a second, even these are counted.
    CHECK(skald::testing::wait_until([&] { return !counts_rows_of("'2020-01-01'", 200ms); }));
    CHECK(counts_rows_of("clock_timestamp()"));
    stop.stop();
}

TEST_CASE("R11: the maintenance's purge counts from the mark, also where it measures nothing")
{
    marked_outbox o;
    skald::runtime::backlog backlog;
    skald::metrics::database_figures figures;
    skald::runtime::deliveries_seen seen;
    skald::runtime::stop_flag stop;
    skald::core::silent_logger log;
    skald::admin::maintenance_options options;
    options.purge_every = 1ms;
    options.outbox_max = 0;
    skald::admin::maintenance keeper{options, {.url = o.db.url()}, backlog, figures, seen, stop,
                                     log,     std::mt19937_64{1}};
    std::jthread const thread{[&] { keeper.run(); }};
    auto const is_purged = [&] { return o.db.one("SELECT count(*) FROM skald.response") == "0"; };
    auto const old_response = "INSERT INTO skald.response (scope, key, status_code, created_at)"
                              " VALUES ('', 'old', 404, now() - interval '31 days')";
    // The mark is raised about once a second, and not beyond a row that is there then: so there are none for a while.
    auto const purge_many_times = [&] {
        for (int n = 0; n < 300; ++n) {
            o.db.run(old_response);
            REQUIRE(skald::testing::wait_until(is_purged));
        }
    };
    auto const is_purged_beside_rows_of = [&](std::string const& due, std::chrono::milliseconds patience) {
        o.db.run(
            "INSERT INTO skald.outbox (aggregatetype, aggregateid, type, payload, idempotency_key, destination, due_at)"
            " SELECT 'x', 'x', 'x', '', 'x', 'x', " +
            due + " FROM generate_series(1, 10001)");
        // A purge that has counted already may not see those, and the answer all the same: let it end first.
        o.db.run(std::string{"LOCK TABLE skald.outbox; "} + old_response);
        bool const purged = skald::testing::wait_until(is_purged, patience);
        o.db.run("DELETE FROM skald.outbox");
        REQUIRE(skald::testing::wait_until(is_purged));
        return purged;
    };
    CHECK(skald::testing::wait_until(
        [&] {
            purge_many_times();
            return is_purged_beside_rows_of("'2020-01-01'", 3s);
        },
        2min));
    CHECK_FALSE(is_purged_beside_rows_of("clock_timestamp()", 200ms));
    stop.stop();
}

TEST_CASE("R4: the mark stays below a row whose transaction has not ended, however long that takes")
{
    marked_outbox o;
    pqxx::connection slow{o.db.url()};
    pqxx::work tx{slow};
    tx.exec("SELECT skald.enqueue('shipping', 's', 'slow', '{}')");
    for (int i = 0; i < 3; ++i) o.raise();
    o.enqueue("fast");
    CHECK(o.take() == "fast ");
    o.raise();
    tx.commit();
    CHECK(o.take() == "slow ");
}

TEST_CASE(
    "R4: a transaction that has read the table, or writes others, holds the mark back no more than one that ended")
{
    marked_outbox o;
    pqxx::connection slow{o.db.url()};
    pqxx::work tx{slow};
    tx.exec("SELECT pg_current_xact_id(), (SELECT count(*) FROM skald.outbox)");
    o.enqueue("k");
    CHECK(o.take() == "k ");
    o.raise();
    CHECK(o.mark->mark() != beginning);
}

TEST_CASE("the mark stays below a row that another relay has in its hands, or that could not be sent")
{
    marked_outbox o;
    o.enqueue("k");
    skald::postgres::postgres_outbox other{{.url = o.db.url()}};
    auto const taken = other.take(10);
    REQUIRE(taken.size() == 1);
    for (int i = 0; i < 3; ++i) o.raise();
    other.release();
    CHECK(o.take() == "k ");

    o.enqueue("refused");
    auto const refused = o.rows.take(10);
    REQUIRE(refused.size() == 1);
    o.rows.resolve({}, {{refused[0].id, "no queue is bound", 0ms}});
    o.raise();
    CHECK(o.take() == "refused ");
}

TEST_CASE("a row with a head start is found when that is over")
{
    marked_outbox o;
    o.db.run("SELECT skald.enqueue('shipping', 's', 'k', '{}', delay => '1 hour')");
    o.raise();
    CHECK(o.take() == "");
    o.db.run("UPDATE skald.outbox SET due_at = clock_timestamp()");
    CHECK(o.take() == "k ");
}

TEST_CASE("a row that is due before the mark is found by a search from the beginning, and so are those behind it")
{
    marked_outbox o{0ms};
    o.raise();
    REQUIRE(o.mark->mark() != beginning);
    o.enqueue("a");
    o.enqueue("b");
    o.db.run("UPDATE skald.outbox SET due_at = '2020-01-01'");  // the clock was wrong
    std::vector<skald::ports::outbox::row> rows;
    REQUIRE(skald::testing::wait_until([&] {
        rows = o.rows.take(1);
        return !rows.empty();
    }));
    CHECK(o.mark->mark() == beginning);
    confirm_all(o.rows, rows);
    CHECK(o.take() == "b ");
}

TEST_CASE("the maintenance notes when the outbox holds more than it may, and when it does not any more")
{
    using namespace skald;
    database const db;
    runtime::backlog backlog;
    metrics::database_figures figures;
    runtime::deliveries_seen seen;
    runtime::stop_flag stop;
    core::silent_logger log;
    admin::maintenance_options options;
    options.purge = false;
    options.outbox_max = 3;
    options.measure_every = 5ms;
    admin::maintenance keeper{options, {.url = db.url()}, backlog, figures, seen, stop, log, std::mt19937_64{1}};
    std::jthread const thread{[&] { keeper.run(); }};
    db.run("SELECT skald.enqueue('x', 'x', 'x', '', delay => '1 h') FROM generate_series(1, 4)");
    CHECK(testing::wait_until([&] { return backlog.is_over(); }));
    db.run("DELETE FROM skald.outbox WHERE id IN (SELECT min(id) FROM skald.outbox)");
    CHECK(testing::wait_until([&] { return !backlog.is_over(); }));
    stop.stop();
}
