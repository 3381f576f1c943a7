// G5: a claim meets a record while a purge deletes it. Never `duplicate` for a run that is not there any
// more, and never two that run. And what a purge leaves for those who must know how far back the guard remembers, and
// what it says when it has to wait.
#include "admin/maintenance.hpp"
#include "postgres/migrate.hpp"
#include "support/database.hpp"
#include "support/event_log.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <thread>

using skald::test::database;

namespace {

constexpr auto claim = "SELECT result || ' ' || held FROM skald.claim(ARRAY[''], ARRAY['k'], ARRAY['charge'],"
                       " ARRAY[sha256('{}')], wait_ms => 10000)";

/// A database with one old record of another home's saga, which a purge may collect.
class old_record
{
public:
    database const db{"payments"};
    pqxx::connection purging{db.url()};

    old_record()
    {
        db.run(std::string{claim} + ";"
                                    "UPDATE skald.idempotency SET created_at = now() - interval '40 days', updated_at "
                                    "= now() - interval '40 days';"
                                    "INSERT INTO skald.ended (scope, key, home, steps, ended_at, asked_at)"
                                    " VALUES ('', 'k', 'orders', '{charge}', now() - interval '40 days', now())");
    }

    /// Deletes the record, and leaves the transaction open.
    void purge()
    {
        on_purging("BEGIN");
        auto const gone = pqxx::nontransaction{purging}.exec("SELECT expired FROM skald.purge('30 days', 10)");
        REQUIRE(gone[0][0].as<int>() == 1);
    }

    void on_purging(std::string const& sql) { pqxx::nontransaction{purging}.exec(sql); }

    std::future<std::string> claim_apart() const
    {
        return std::async(std::launch::async, [url = db.url()] {
            pqxx::connection c{url};
            return std::string{pqxx::nontransaction{c}.exec(claim)[0][0].c_str()};
        });
    }

    void wait_until_blocked(std::string const& by) const
    {
        while (db.one("SELECT count(*) FROM pg_stat_activity WHERE " + by + " = ANY (pg_blocking_pids(pid))") == "0")
            std::this_thread::yield();
    }
    void wait_until_blocked() { wait_until_blocked(std::to_string(purging.backendpid())); }
};

}  // namespace

TEST_CASE("a claim that meets a record which is being purged waits, and is fresh when it has gone")
{
    old_record r;
    r.purge();
    auto first = r.claim_apart(), second = r.claim_apart();
    r.wait_until_blocked();
    r.on_purging("COMMIT");
    auto const verdicts = first.get() + ", " + second.get();
    CHECK((verdicts == "fresh true, duplicate false" || verdicts == "duplicate false, fresh true"));
    CHECK(r.db.one("SELECT count(*) FROM skald.idempotency") == "1");
}

TEST_CASE("a claim that meets a record whose purge is rolled back is a duplicate")
{
    old_record r;
    r.purge();
    auto met = r.claim_apart();
    r.wait_until_blocked();
    r.on_purging("ROLLBACK");
    CHECK(met.get() == "duplicate false");
}

TEST_CASE("a claim that can't wait for a purge is in flight, and not a duplicate")
{
    old_record r;
    r.purge();
    CHECK(r.db.one("SELECT result FROM skald.claim(ARRAY[''], ARRAY['k'], ARRAY['charge'], ARRAY[sha256('{}')],"
                   " wait_ms => 10)") == "in_flight");
    r.on_purging("COMMIT");
    CHECK(r.db.one(claim) == "fresh true");
}

TEST_CASE("a claim whose record is purged between its insert and its look is in flight, and not a duplicate")
{
    old_record r;
    // Between the two: the trigger of a statement runs where no row was inserted, too.
    r.db.run("CREATE FUNCTION skald.test_wait() RETURNS trigger LANGUAGE plpgsql AS"
             " 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END';"
             "CREATE TRIGGER test_wait AFTER INSERT ON skald.idempotency EXECUTE FUNCTION skald.test_wait()");
    r.on_purging("SELECT pg_advisory_lock(7)");
    auto met = r.claim_apart();
    r.wait_until_blocked();
    r.purge();
    r.on_purging("COMMIT");
    r.on_purging("SELECT pg_advisory_unlock(7)");
    CHECK(met.get() == "in_flight false");
    r.db.run("DROP FUNCTION skald.test_wait CASCADE");
    CHECK(r.db.one(claim) == "fresh true");
}

TEST_CASE("a purge does not collect a record that a transaction has claimed again")
{
    old_record r;
    r.db.run("UPDATE skald.idempotency SET status = 'retrying'");
    r.on_purging("BEGIN");
    r.on_purging(claim);
    CHECK(r.db.one("SELECT expired FROM skald.purge('30 days', 10)") == "0");
    r.on_purging("ROLLBACK");
}

TEST_CASE("a purge that deletes records says how far back the guard remembers, and nothing takes that back")
{
    old_record r;
    auto const days = [&] {
        return r.db.one("SELECT coalesce(round(extract(epoch FROM clock_timestamp() - forgot_before) / 86400), -1) "
                        "FROM skald.service");
    };
    r.on_purging("SELECT skald.purge('50 days', 10)");
    CHECK(days() == "-1");
    r.on_purging("SELECT skald.purge('35 days', 10)");
    CHECK(days() == "35");
    r.on_purging("SELECT skald.purge('36 days', 10); SELECT skald.purge('2 days', 10)");  // nothing is left to delete
    CHECK(days() == "35");
    auto const known = skald::postgres::owner_of(r.purging).forgot_before;
    REQUIRE(known);
    CHECK(std::chrono::system_clock::now() - *known > std::chrono::days{34});
}

TEST_CASE("a purge that has to wait for the outbox says so once, each time that this begins")
{
    using namespace skald;
    database const db{"payments"};
    constexpr auto backlog_rows = "SELECT skald.enqueue('x', 'x', 'x', '') FROM generate_series(1, 10001)";
    db.run(backlog_rows);
    db.run("INSERT INTO skald.idempotency (scope, key, step) VALUES ('', 'old', '');"
           "INSERT INTO skald.response (scope, key, status_code, created_at)"
           " VALUES ('', 'old', 404, now() - interval '31 days')");
    runtime::backlog backlog;
    metrics::database_figures figures;
    runtime::deliveries_seen seen;
    runtime::stop_flag stop;
    test::event_log log;
    admin::maintenance_options options;
    options.purge_every = std::chrono::milliseconds{1};
    options.outbox_max = 0;
    admin::maintenance keeper{options, {.url = db.url()}, backlog, figures, seen, stop, log, std::mt19937_64{1}};
    {
        std::jthread const thread{[&] { keeper.run(); }};
        CHECK(log.wait_for("purge.postponed"));
        db.run("DELETE FROM skald.outbox");
        CHECK(testing::wait_until([&] { return db.one("SELECT count(*) FROM skald.response") == "0"; }));
        db.run(backlog_rows);
        CHECK(testing::wait_until([&] { return log.count("purge.postponed") > 1; }));
        stop.stop();
    }
    CHECK(log.count("purge.postponed") == 2);
}
