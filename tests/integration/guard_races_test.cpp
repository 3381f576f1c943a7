// The guard where two meet: a record that goes away under a claim, stricter isolation, locks and their order.
#include "postgres/postgres_store.hpp"
#include "support/depot.hpp"
#include "support/session.hpp"

#include <doctest/doctest.h>

#include <array>
#include <barrier>
#include <future>

using namespace std::chrono_literals;
using namespace skald;
using test::claim_sql;
using test::database;
using test::session;
using test::wait_until_blocked_by;

namespace {

ports::claim_item item(std::string const& key, std::string const& body = "{}")
{
    return {{"", key}, "step", core::fingerprint_of(body), 1, false};
}

}  // namespace

TEST_CASE("G4: while a step runs there is no status to read; whoever comes meanwhile is told by the lock")
{
    database const db;
    session running{db};
    running.run("BEGIN");
    CHECK(running.claim("k", "step") == "fresh 1 true");
    CHECK(db.one("SELECT count(*) FROM skald.idempotency") == "0");
    CHECK(session{db}.claim("k", "step", "{}", ", wait_ms => 10") == "in_flight 0 false");
}

TEST_CASE("G5: a record that is collected between the insert that met it and the read is in flight, never a duplicate")
{
    database const db;
    db.run(claim_sql("", "k", "step"));
    // A gate between the two statements of the claim: it stands behind the insert, also where that inserted nothing.
    db.run("CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS "
           "$$ BEGIN PERFORM pg_advisory_xact_lock(5); RETURN NULL; END $$;"
           "CREATE TRIGGER gate AFTER INSERT ON skald.idempotency FOR EACH STATEMENT EXECUTE FUNCTION gate()");
    session keeper{db};
    keeper.run("SELECT pg_advisory_lock(5)");
    auto claimed = std::async(std::launch::async, [&] { return session{db}.claim("k", "step"); });
    wait_until_blocked_by(db, keeper.pid());
    db.run("DELETE FROM skald.idempotency");
    keeper.run("SELECT pg_advisory_unlock(5)");
    CHECK(claimed.get() == "in_flight 0 false");
    CHECK_MESSAGE(session{db}.claim("k", "step") == "fresh 1 true", "asked again, it runs");
}

TEST_CASE("G6: the guard runs in READ COMMITTED, whatever the database's default isolation is")
{
    database const db;
    auto const name = db.one("SELECT current_database()");
    db.run("ALTER DATABASE " + name + " SET default_transaction_isolation = 'serializable'");
    postgres::postgres_store first{{.url = db.url()}}, second{{.url = db.url()}};
    CHECK(first.begin(std::array{item("k")}, {}).front().result == ports::claim_result::fresh);
    auto waiting = std::async(std::launch::async, [&] { return second.begin(std::array{item("k")}, {}).front(); });
    while (db.one("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0") std::this_thread::yield();
    first.commit({});
    // Under the default it would have been 40001: could not serialize access.
    CHECK(waiting.get().result == ports::claim_result::duplicate);
    second.rollback();
    CHECK_MESSAGE(session{db}.run("SHOW default_transaction_isolation") == "serializable",
                  "the test has shown something");
    db.run("ALTER DATABASE " + name + " RESET default_transaction_isolation");
}

TEST_CASE("G11, G12: a claim takes no advisory lock, so no two keys can collide on a number made of them")
{
    database const db;
    session s{db};
    s.run("BEGIN");
    CHECK(s.run("SELECT count(*) FROM skald.claim((SELECT array_agg(''::text) FROM generate_series(1, 2000)), "
                "(SELECT array_agg('key-' || n) FROM generate_series(1, 2000) n), "
                "(SELECT array_agg('step'::text) FROM generate_series(1, 2000)), "
                "(SELECT array_agg(sha256('x')) FROM generate_series(1, 2000))) WHERE result = 'fresh'") == "2000");
    CHECK(s.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()") == "0");
}

TEST_CASE("G20: a key is single whenever it was used: no part of the guard's table is divided by time")
{
    database const db;
    db.run("INSERT INTO skald.idempotency (scope, key, step, created_at) VALUES ('', 'k', 'step', '2001-01-01')");
    CHECK_THROWS_WITH(
        db.run("INSERT INTO skald.idempotency (scope, key, step, created_at) VALUES ('', 'k', 'step', '2026-01-01')"),
        doctest::Contains("idempotency_once"));
}

TEST_CASE("G21: a lock on a saga's row holds up no step, and no table of Skald's refers to another")
{
    database const db;
    db.run("INSERT INTO skald.saga (scope, key, definition, data, itinerary) VALUES ('', 'k', 'd', '{}', '')");
    session holder{db};
    holder.run("BEGIN");
    holder.run("SELECT 1 FROM skald.saga FOR UPDATE");
    session step{db};
    step.run("SET lock_timeout = '2s'");
    step.run("BEGIN");
    CHECK(step.claim("k", "step") == "fresh 1 true");
    CHECK_NOTHROW(step.run("SELECT skald.enqueue('shipping', 'next', 'k:next', '{}', aggregateid => 'k')"));
    CHECK_NOTHROW(step.run("COMMIT"));
    CHECK(db.one("SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND 'skald'::regnamespace IN "
                 "(connamespace, (SELECT relnamespace FROM pg_class WHERE oid = confrelid))") == "0");
}

TEST_CASE("G22: two steps that deadlock on the user's own rows both run in the end, each once, at no cost in attempts")
{
    test::depot d;
    d.db().run("CREATE TABLE shelf (id int PRIMARY KEY, used int); INSERT INTO shelf VALUES (1, 0), (2, 0)");
    std::barrier both{2};
    std::array<std::atomic<int>, 2> runs{};
    d.weigh = [&](step_context& ctx, test::parcel&) -> outcome {
        bool const forward = ctx.key() == "a:weigh";
        bool const first_run = runs[forward]++ == 0;
        ctx.sql("UPDATE shelf SET used = used + 1 WHERE id = $1", forward ? 1 : 2);
        if (first_run) both.arrive_and_wait();
        ctx.sql("UPDATE shelf SET used = used + 1 WHERE id = $1", forward ? 2 : 1);
        return done();
    };
    d.host();
    for (auto const* key : {"a", "b"}) d.start(test::send, test::parcel{"p", 7}, key);
    d.at("depot").relay_due();
    for (int i = 0; i < 2; ++i) d.at("depot").process_one();  // both are packed
    d.at("depot").relay_due();
    std::vector<ports::delivery> deliveries;
    for (auto const& sent : d.transport().captured())
        if (sent.type == "weigh") deliveries.push_back(test::delivery_of(sent));
    REQUIRE(deliveries.size() == 2);
    {
        std::vector<std::jthread> lanes;
        for (auto const& delivery : deliveries)
            lanes.emplace_back([&] {
                for (bool processed = false; !processed;) {
                    try {
                        d.at("depot").process_apart(delivery);
                        processed = true;
                    }
                    catch (test::not_processed const& met) {
                        CHECK(met.why == runtime::failure::contended);
                    }
                }
            });
    }
    CHECK_MESSAGE(runs[0] + runs[1] == 3, "one of them was the victim, and ran again");
    CHECK(d.db().rows("SELECT used FROM shelf ORDER BY id") == "2\n2");
    CHECK(d.db().rows("SELECT key, status, attempts FROM skald.idempotency WHERE step = 'weigh' ORDER BY key") ==
          "a|completed|1\nb|completed|1");
}
