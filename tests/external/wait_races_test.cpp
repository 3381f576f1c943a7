// A signal or a command that is given while the transaction that begins a wait has not committed: neither sees the
// other's rows, and the saga must not wait in vain.
#include "support/database.hpp"

#include <doctest/doctest.h>

#include <pqxx/pqxx>

#include <string>

using skald::test::database;

namespace {

constexpr auto begins =
    "INSERT INTO skald.idempotency (scope, key, step, home, status) VALUES ('', 'k', 'approve', 'orders', 'started');"
    R"(SELECT skald.start_step(jsonb_populate_record(NULL::skald.started, '{"scope": "", "key": "k", "step": "approve",)"
    R"( "kind": "wait", "dependency": "", "lease": "15 s", "message_id": "m", "type": "approve", "content_type": "c",)"
    R"( "body": "", "headers": {"x-saga-home": "orders"}}'), '1 h', NULL))";
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

TEST_CASE("a wait that begins while a signal or a command is being given waits for that, and is due at once")
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
    pqxx::connection other{db.url()};
    pqxx::work tx{other};
    tx.exec(what);
    CHECK(waits(db, begins));
    tx.commit();
    db.run(begins);
    CHECK(is_due(db) == "t");
}
