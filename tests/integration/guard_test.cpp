// The guard: skald.claim() on a real PostgreSQL, trap by trap.
#include "support/session.hpp"

#include <doctest/doctest.h>

#include <future>

using skald::test::claim_sql;
using skald::test::database;
using skald::test::session;
using skald::test::wait_until_blocked_by;

TEST_CASE("a guard without the key that makes it one claims nothing")
{
    skald::test::database db{"orders"};
    db.run("ALTER TABLE skald.idempotency DROP CONSTRAINT idempotency_once");
    CHECK_THROWS_WITH(db.one(claim_sql("", "k", "step", "{}")), doctest::Contains("idempotency_once"));
    db.run("ALTER TABLE skald.idempotency ADD CONSTRAINT idempotency_once PRIMARY KEY (scope, key, step)");
    CHECK(db.one(claim_sql("", "k", "step", "{}")) == "fresh 1 true");
}

TEST_CASE("the first claim of a key is fresh and the second a duplicate")
{
    database const db;
    CHECK(db.one(claim_sql("", "k", "step")) == "fresh 1 true");
    CHECK(db.one(claim_sql("", "k", "step")) == "duplicate 1 false");
}

TEST_CASE("G15: the same key in another scope, or for another step, is another record")
{
    database const db;
    CHECK(db.one(claim_sql("a", "k", "step")) == "fresh 1 true");
    CHECK(db.one(claim_sql("b", "k", "step")) == "fresh 1 true");
    CHECK(db.one(claim_sql("a", "k", "other")) == "fresh 1 true");
}

TEST_CASE("G14: a key with a colon in it does not touch the saga that it spells")
{
    database const db;
    CHECK(db.one(claim_sql("", "X:charge-payment", "")) == "fresh 1 true");
    CHECK(db.one(claim_sql("", "X", "charge-payment")) == "fresh 1 true");
}

TEST_CASE("G1: meeting a key that exists does not abort the transaction")
{
    database const db;
    db.run(claim_sql("", "k", "step"));
    session s{db};
    s.run("BEGIN");
    CHECK(s.claim("k", "step") == "duplicate 1 false");
    CHECK(s.run("SELECT 1") == "1");
    s.run("COMMIT");
}

TEST_CASE("G2, G13: a key that another transaction has is in flight, never a duplicate, and the wait is bounded")
{
    database const db;
    session first{db}, second{db};
    first.run("BEGIN");
    CHECK(first.claim("k", "step") == "fresh 1 true");
    second.run("BEGIN");
    CHECK(second.claim("k", "step", "{}", ", wait_ms => 20") == "in_flight 0 false");
    CHECK_MESSAGE(second.run("SELECT 1") == "1", "and the second transaction can go on");
    second.run("ROLLBACK");
    first.run("ROLLBACK");
    CHECK_MESSAGE(second.claim("k", "step") == "fresh 1 true",
                  "the first one rolled back, so nothing has happened yet");
}

TEST_CASE("a claim leaves the session's lock_timeout as it was")
{
    database const db;
    session first{db}, second{db};
    second.run("SET lock_timeout = '7s'");
    first.run("BEGIN");
    first.claim("k", "step");
    second.run("BEGIN");
    second.claim("k", "step", "{}", ", wait_ms => 10");
    CHECK(second.run("SHOW lock_timeout") == "7s");
    second.claim("other", "step", "{}", ", wait_ms => 10");
    CHECK(second.run("SHOW lock_timeout") == "7s");
}

TEST_CASE("G3: two that claim a new key at once never both get it")
{
    database const db;
    session first{db};
    first.run("BEGIN");
    CHECK(first.claim("k", "step") == "fresh 1 true");
    auto waiting = std::async(std::launch::async, [&] { return session{db}.claim("k", "step"); });
    wait_until_blocked_by(db, first.pid());
    first.run("COMMIT");
    CHECK(waiting.get() == "duplicate 1 false");
}

TEST_CASE("G3: when the first rolls back, the one that waited has the key")
{
    database const db;
    session first{db};
    first.run("BEGIN");
    first.claim("k", "step");
    auto waiting = std::async(std::launch::async, [&] { return session{db}.claim("k", "step"); });
    wait_until_blocked_by(db, first.pid());
    first.run("ROLLBACK");
    CHECK(waiting.get() == "fresh 1 true");
}

TEST_CASE("G10: an attempt in doubt is resolved by claiming again, which waits for it")
{
    database const db;
    session zombie{db};
    zombie.run("BEGIN");
    zombie.claim("k", "step");
    CHECK_MESSAGE(db.one("SELECT count(*) FROM skald.idempotency WHERE key = 'k'") == "0",
                  "a plain read would say that it did not happen");
    auto resolver = std::async(std::launch::async, [&] { return session{db}.claim("k", "step"); });
    wait_until_blocked_by(db, zombie.pid());
    zombie.run("COMMIT");
    CHECK(resolver.get() == "duplicate 1 false");
}

TEST_CASE("G16: another body under the same key is a mismatch, also after many duplicates")
{
    database const db;
    db.run(claim_sql("", "k", "step", "a"));
    CHECK(db.one(claim_sql("", "k", "step", "b")) == "mismatch 1 false");
    CHECK(db.one(claim_sql("", "k", "step", "a")) == "duplicate 1 false");
}

TEST_CASE("a completed duplicate assigns no transaction id and writes no WAL")
{
    database const db;
    session s{db};
    s.claim("k", "step");
    s.run("CHECKPOINT");
    s.claim("k", "step");  // hint bits of what was just inserted are set once
    // The server has other sessions, and writes things of its own: what a duplicate wrote would be there every time.
    bool wrote_nothing = false;
    for (int tries = 0; tries < 500 && !wrote_nothing; ++tries) {
        s.run("BEGIN");
        auto const before = s.run("SELECT pg_current_wal_insert_lsn()");
        CHECK(s.claim("k", "step") == "duplicate 1 false");
        CHECK(s.run("SELECT pg_current_xact_id_if_assigned() IS NULL") == "t");
        wrote_nothing = s.run("SELECT pg_current_wal_insert_lsn() - '" + before + "'") == "0";
        s.run("COMMIT");
    }
    CHECK(wrote_nothing);
}

TEST_CASE("the same key twice in one call is claimed once")
{
    database const db;
    CHECK(db.rows("SELECT ord, result FROM skald.claim(ARRAY['',''], ARRAY['k','k'], ARRAY['s','s'], "
                  "ARRAY[sha256('x'),sha256('x')]) ORDER BY ord") == "1|fresh\n2|duplicate");
}

TEST_CASE("two batches that claim the same keys in opposite order do not deadlock")
{
    database const db;
    session first{db};
    first.run("BEGIN");
    first.claim("a", "s");
    // In key order `a` comes first: the batch waits for it and holds nothing that the first could need.
    auto batch = std::async(std::launch::async, [&] {
        return session{db}.run("SELECT string_agg(result, ' ' ORDER BY ord) FROM skald.claim(ARRAY['',''], "
                               "ARRAY['b','a'], ARRAY['s','s'], ARRAY[sha256('{}'),sha256('{}')])");
    });
    wait_until_blocked_by(db, first.pid());
    CHECK(first.claim("b", "s") == "fresh 1 true");
    first.run("COMMIT");
    CHECK(batch.get() == "duplicate duplicate");
}

TEST_CASE("S9: a failed step may be tried again, by its next fencing token and not by an old one")
{
    database const db;
    db.run(claim_sql("", "k", "step"));
    db.run("UPDATE skald.idempotency SET status = 'retrying', attempts = 2, snoozes = 1");
    CHECK(db.one(claim_sql("", "k", "step", "{}", ", fencing_tokens => ARRAY[3]")) == "duplicate 2 false");
    CHECK(db.one(claim_sql("", "k", "step", "{}", ", fencing_tokens => ARRAY[4]")) == "retry 3 true");
    CHECK_MESSAGE(db.one(claim_sql("", "k", "step")) == "retry 3 true", "whoever counts no turns may always try");
}

TEST_CASE("two attempts of one step never overlap")
{
    database const db;
    db.run(claim_sql("", "k", "step"));
    db.run("UPDATE skald.idempotency SET status = 'retrying'");
    session first{db};
    first.run("BEGIN");
    CHECK(first.claim("k", "step") == "retry 2 true");
    session second{db};
    CHECK(second.claim("k", "step", "{}", ", wait_ms => 20") == "in_flight 0 false");
    first.run("UPDATE skald.idempotency SET status = 'completed', attempts = 2");
    first.run("COMMIT");
    CHECK(second.claim("k", "step") == "duplicate 2 false");
}

TEST_CASE("S2: a compensation for a step that never ran undoes nothing, and the late step does not run")
{
    database const db;
    CHECK(db.one(claim_sql("", "k", "pay.compensate")) == "cancelled 1 true");
    CHECK(db.one(claim_sql("", "k", "pay")) == "cancelled 0 false");
    CHECK(db.one("SELECT status FROM skald.idempotency WHERE step = 'pay'") == "cancelled");
}

TEST_CASE("a compensation for a step that completed is claimed like any step")
{
    database const db;
    db.run(claim_sql("", "k", "pay"));
    CHECK(db.one(claim_sql("", "k", "pay.compensate")) == "fresh 1 true");
    CHECK(db.one(claim_sql("", "k", "pay.compensate")) == "duplicate 1 false");
}

TEST_CASE("S2: a compensation that meets its step while that still tries again ends the trying")
{
    database const db;
    db.run(claim_sql("", "k", "pay"));
    db.run("UPDATE skald.idempotency SET status = 'retrying'");
    CHECK(db.one(claim_sql("", "k", "pay.compensate")) == "cancelled 1 true");
    CHECK(db.one(claim_sql("", "k", "pay", "{}", ", fencing_tokens => ARRAY[2]")) == "cancelled 1 false");
}

TEST_CASE("S2: a compensation waits for its step where that is running")
{
    database const db;
    session step{db};
    step.run("BEGIN");
    step.claim("k", "pay");
    auto undo = std::async(std::launch::async, [&] { return session{db}.claim("k", "pay.compensate"); });
    wait_until_blocked_by(db, step.pid());
    step.run("COMMIT");
    CHECK(undo.get() == "fresh 1 true");
}

TEST_CASE("a paused saga claims nothing, and goes on when the order is gone")
{
    database const db;
    db.run("INSERT INTO skald.control (scope, key, home, action) VALUES ('', 'k', 'orders', 'pause')");
    CHECK(db.one(claim_sql("", "k", "pay")) == "paused 0 false");
    CHECK(db.one(claim_sql("", "other", "pay")) == "fresh 1 true");
    db.run("DELETE FROM skald.control");
    CHECK(db.one(claim_sql("", "k", "pay")) == "fresh 1 true");
}

TEST_CASE("a cancelled saga's next step is held as cancelled, unless it is past the pivot or on its way back")
{
    database const db;
    db.run(claim_sql("", "k", "done"));
    db.run("INSERT INTO skald.control (scope, key, home, action) VALUES ('', 'k', 'orders', 'cancel')");
    CHECK(db.one(claim_sql("", "k", "pay")) == "cancelled 1 true");
    CHECK(db.one(claim_sql("", "k", "late", "{}", ", past_pivot => ARRAY[true]")) == "fresh 1 true");
    CHECK(db.one(claim_sql("", "k", "done.compensate")) == "fresh 1 true");
}

TEST_CASE("G23: a session that dies in the middle frees its key")
{
    database const db;
    auto dying = std::make_unique<session>(db);
    dying->run("BEGIN");
    dying->claim("k", "step");
    db.run("SELECT pg_terminate_backend(" + std::to_string(dying->pid()) + ")");
    CHECK(session{db}.claim("k", "step") == "fresh 1 true");
}

TEST_CASE("names and sizes that are wrong do not get past the schema")
{
    database const db;
    CHECK_THROWS(db.run(claim_sql("", std::string(181, 'k'), "step")));
    CHECK_NOTHROW(db.run(claim_sql("", std::string(180, 'k'), "step")));
    CHECK_THROWS(db.run(claim_sql("", "", "step")));
    CHECK_THROWS(db.run(claim_sql(std::string(65, 's'), "k", "step")));
    CHECK_THROWS(db.run(claim_sql("", "k", "Step")));
    CHECK_THROWS(db.run(claim_sql("", "k", "a:b")));
    CHECK_THROWS(db.run(claim_sql("", "k", "a.b")));
}
