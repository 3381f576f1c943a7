// A signal or a command that is given while the transaction that begins a wait has not committed: neither sees the
// other's rows, and the saga must not wait in vain.
#include "support/database.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <pqxx/pqxx>

#include <future>
#include <string>

using skald::test::database;

namespace {

constexpr auto begins =
    "INSERT INTO skald.idempotency (scope, key, step, home, status) VALUES ('', 'k', 'approve', 'orders', 'started');"
    R"(SELECT skald.start_step(jsonb_populate_record(NULL::skald.started, '{"scope": "", "key": "k", "step": "approve",)"
    R"( "kind": "wait", "dependency": "", "lease": "15 s", "message_id": "m", "type": "approve", "content_type": "c",)"
    R"( "body": "", "headers": {"x-saga-home": "orders"}}'), '1 h', NULL))";
constexpr auto calls =
    "INSERT INTO skald.idempotency (scope, key, step, home, status) VALUES ('', 'k', 'approve', 'orders', 'started');"
    R"(SELECT skald.start_step(jsonb_populate_record(NULL::skald.started, '{"scope": "", "key": "k", "step": "approve",)"
    R"( "kind": "call", "dependency": "bank", "lease": "15 s", "unknown_after": "1 h", "message_id": "m", "type": "approve",)"
    R"( "content_type": "c", "body": "", "headers": {"x-saga-home": "orders"}}'), NULL, clock_timestamp() + interval '1 h'))";
constexpr auto signals = R"(SELECT skald.signal('', 'k', 'approve', '{"by": "eve"}'))";
constexpr auto cancels =
    R"(SELECT skald.take_control(jsonb_build_object('id', gen_random_uuid(), 'scope', '', 'key', 'k',)"
    R"( 'home', 'orders', 'action', 'cancel', 'by', 'eve', 'requested_at', clock_timestamp())))";

bool waits(database const& db, std::string const& what)
try {
    db.run("SET lock_timeout = '300ms'; " + what);
    return false;
}
catch (pqxx::sql_error const& error) {
    return error.sqlstate() == "55P03";
}

std::string is_due(database const& db)
{
    return db.rows("SELECT due_at <= clock_timestamp() FROM skald.started");
}

}  // namespace

TEST_CASE("a signal or a command waits for the transaction that begins the wait, and then ends it")
{
    database const db;
    std::string what;
    SUBCASE("signal")
    {
        what = signals;
    }
    SUBCASE("command")
    {
        what = cancels;
    }
    pqxx::connection step{db.url()};
    pqxx::work tx{step};
    tx.exec(begins);
    CHECK(waits(db, what));
    tx.commit();
    CHECK(is_due(db) == "f");
    db.run(what);
    CHECK(is_due(db) == "t");
}

TEST_CASE("a step that starts while a signal or a command is being given waits for that, and is due at once")
{
    database const db;
    std::string what, starts = begins;
    SUBCASE("signal")
    {
        what = signals;
    }
    SUBCASE("command")
    {
        what = cancels;
    }
    SUBCASE("command, and a call")
    {
        what = cancels;
        starts = calls;
    }
    pqxx::connection other{db.url()};
    pqxx::work tx{other};
    tx.exec(what);
    CHECK(waits(db, starts));
    // The one that has waited goes on, with what it finds then.
    auto const starting = [&] {
        pqxx::connection own{db.url()};
        pqxx::nontransaction{own}.exec(starts);
    };
    auto started = std::async(std::launch::async, starting);
    CHECK(skald::testing::wait_until(
        [&] { return db.one("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'") == "1"; }));
    tx.commit();
    started.get();
    CHECK(db.one(starts == calls ? "SELECT ends_at <= clock_timestamp() FROM skald.started"
                                 : "SELECT due_at <= clock_timestamp() FROM skald.started") == "t");
}

TEST_CASE("a signal that was accepted counts, although a process has the wait to record that nothing came")
{
    database const db;
    db.run(begins);
    db.run("UPDATE skald.started SET due_at = clock_timestamp()");
    REQUIRE(db.one("SELECT (taken).fence FROM skald.take_started('a', 'wait', '', 1)") == "1");
    CHECK(db.one(signals) == "kept");
    CHECK(is_due(db) == "t");
    CHECK(db.one("SELECT result FROM skald.claim_started('', 'k', 'approve', 1)") == "duplicate");
    CHECK(db.one("SELECT (taken).answer FROM skald.take_started('b', 'wait', '', 1)") ==
          R"({"signal": {"by": "eve"}})");
}

TEST_CASE("a call that is given back uncalled keeps its deadline")
{
    database const db;
    db.run(calls);
    auto const ends = db.one("SELECT ends_at FROM skald.started");
    REQUIRE(db.one("SELECT (taken).fence FROM skald.take_started('a', 'call', 'bank', 1)") == "1");
    auto const give_back = [&](std::string const& again_in, std::string const& fence) {
        db.run("SELECT skald.release_started('', 'k', 'approve', " + fence + ", '" + again_in +
               "', false, 0, 0, NULL, false, true, false, NULL)");
    };
    give_back("0", "1");  // by an open breaker
    CHECK(db.one("SELECT ends_at FROM skald.started") == ends);
    SUBCASE("also in the past, by a process that does not have its step")
    {
        db.run("UPDATE skald.started SET ends_at = clock_timestamp() - interval '1 s'");
        REQUIRE(db.one("SELECT (taken).fence FROM skald.take_started('a', 'call', NULL, 1)") == "2");
        give_back("5 s", "2");
        CHECK(db.one("SELECT ends_at < clock_timestamp() FROM skald.started") == "t");
    }
}
