// The outbox and its relay on a real PostgreSQL: nothing is lost, whoever dies, and nothing leaves too early.
#include "support/confirm_rows.hpp"
#include "support/rehearsed.hpp"
#include "support/server_setting.hpp"
#include "support/stepped_services.hpp"

#include "core/signature.hpp"
#include "runtime/publish_loop.hpp"
#include "runtime/table_source.hpp"
#include "transports/message_limits.hpp"

#include <doctest/doctest.h>

#include <set>
#include <thread>

using namespace std::chrono_literals;
using skald::ports::outbox;
using skald::test::confirm_all;
using skald::test::database;

namespace {

skald::postgres::connection_options options(database const& db)
{
    skald::postgres::connection_options o;
    o.url = db.url();
    return o;
}

std::string enqueue(std::string const& key, std::string const& more = "")
{
    return "SELECT skald.enqueue('shipping', 'a-step', '" + key + "', '{}'" + more + ")";
}

std::string keys(std::vector<outbox::row> const& rows)
{
    std::string text;
    for (auto const& row : rows) text += row.message.id + ' ';
    return text;
}

}  // namespace

TEST_CASE("R1: a row that commits after one with a higher id is taken all the same")
{
    database const db;
    pqxx::connection slow{db.url()};
    pqxx::work tx{slow};
    tx.exec(enqueue("low"));
    db.run(enqueue("high"));

    skald::postgres::postgres_outbox relay{options(db)};
    auto const high = relay.take(10);
    CHECK(keys(high) == "high ");
    confirm_all(relay, high);
    tx.commit();
    CHECK(keys(relay.take(10)) == "low ");
}

TEST_CASE("a row with more attempts than can be counted is put off like any other, and holds no batch back")
{
    database const db;
    db.run(enqueue("one") + ';' + enqueue("two") +
           ";UPDATE skald.outbox SET attempts = 2147483647 WHERE idempotency_key = 'one'");
    skald::postgres::postgres_outbox relay{options(db)};
    auto const rows = relay.take(10);
    REQUIRE(rows.size() == 2);
    relay.resolve({}, {{rows[0].id, "no queue", 0ms, false}, {rows[1].id, "no queue", 0ms, false}});
    CHECK(db.rows("SELECT attempts FROM skald.outbox ORDER BY 1") == "1\n2000000001");
}

TEST_CASE("a row whose COMMIT did not wait for the standbys is taken only after one that has")
{
    database const db;
    skald::postgres::postgres_outbox relay{options(db)};
    skald::test::absent_standby standby;
    {
        skald::test::impatient_operator const cuts{db.one("SELECT current_database()")};
        db.run(enqueue("early"));
        CHECK_THROWS_WITH_AS(relay.take(10), doctest::Contains("may not be on the standbys"), skald::ports::fault);
        CHECK(db.one("SELECT count(*) FROM skald.outbox") == "1");
    }
    standby.reset();
    CHECK(keys(relay.take(10)) == "early ");
}

TEST_CASE("while the standbys are away a relay has one session that waits for them, however often it asks")
{
    database const db;
    db.run(enqueue("early"));
    auto impatient = options(db);
    impatient.statement_timeout = impatient.commit_timeout = 500ms;
    skald::postgres::postgres_outbox relay{impatient};
    skald::test::absent_standby standby;
    for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(relay.take(10), skald::ports::fault);
    CHECK(skald::testing::wait_until([&] { return db.one(skald::test::standby_waits) == "1"; }));
    standby.reset();
    CHECK(skald::testing::wait_until([&] {
        try {
            return keys(relay.take(10)) == "early ";
        }
        catch (skald::ports::fault const&) {  // on the connection that was cut, or slowly
            return false;
        }
    }));
}

TEST_CASE("a role that may end no wait waits, and goes on when the standbys are back")
{
    database const db;
    auto const role = "relay_" + std::to_string(::getpid());
    db.run("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA skald TO " + role +
           "; GRANT ALL ON ALL TABLES IN SCHEMA skald TO " + role +
           "; REVOKE EXECUTE ON FUNCTION pg_cancel_backend(integer) FROM PUBLIC");
    db.run(enqueue("early"));
    auto impatient = options(db);
    impatient.url = skald::test::as_role(db.url(), role);
    impatient.statement_timeout = impatient.commit_timeout = 500ms;
    {
        skald::postgres::postgres_outbox relay{impatient};
        skald::test::absent_standby standby;
        for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(relay.take(10), skald::ports::fault);
        CHECK(db.one(skald::test::standby_waits) == "3");
        standby.reset();
        std::string why;
        CHECK_MESSAGE(skald::testing::wait_until([&] {
                          try {
                              return keys(relay.take(10)) == "early ";
                          }
                          catch (skald::ports::fault const& met) {  // on the connection that was cut, or slowly
                              why = met.what();
                              return false;
                          }
                      }),
                      why);
    }
    CHECK(skald::testing::wait_until([&] { return db.one(skald::test::standby_waits) == "0"; }));
    db.run("GRANT EXECUTE ON FUNCTION pg_cancel_backend(integer) TO PUBLIC; DROP OWNED BY " + role + "; DROP ROLE " +
           role);
}

TEST_CASE("the outbox takes no headers that no relay could send, signed")
{
    database const db;
    auto const largest = [](int bytes) {
        return "SELECT skald.enqueue('shipping', repeat('t', 255), repeat('i', 255), '{}', jsonb_build_object('h', "
               "repeat('x', " +
               std::to_string(bytes) + ")), content_type => repeat('c', 255))";
    };
    db.run(largest(128'155));
    CHECK_THROWS_WITH(db.run(largest(128'156)), doctest::Contains("headers_are_an_object_that_can_be_sent"));
    skald::postgres::postgres_outbox relay{options(db)};
    auto rows = relay.take(10);
    REQUIRE(rows.size() == 1);
    skald::core::key_ring const keys{{skald::core::signing_key::parse(std::string(64, 'a')).value()}};
    keys.sign(rows[0].message);
    CHECK(skald::transports::why_never_sent(rows[0].message) == "");
}

TEST_CASE("R3: a transaction that stays open for long holds no message back")
{
    database const db;
    pqxx::connection slow{db.url()};
    pqxx::work tx{slow};
    tx.exec("SELECT pg_current_xact_id()");
    db.run(enqueue("k"));
    skald::postgres::postgres_outbox relay{options(db)};
    CHECK(keys(relay.take(10)) == "k ");
}

TEST_CASE("R5: a message that is enqueued in a savepoint leaves with its transaction, or goes with its savepoint")
{
    database const db;
    db.run("BEGIN; SAVEPOINT a; " + enqueue("kept") + "; RELEASE a; SAVEPOINT b; " + enqueue("undone") +
           "; ROLLBACK TO b; COMMIT");
    skald::postgres::postgres_outbox relay{options(db)};
    CHECK(keys(relay.take(10)) == "kept ");
}

TEST_CASE("R14: no message is too old or has been tried too often to be sent")
{
    database const db;
    db.run(enqueue("k"));
    db.run("UPDATE skald.outbox SET created_at = '2001-01-01', due_at = '2001-01-01', attempts = 1000000");
    skald::postgres::postgres_outbox relay{options(db)};
    auto const rows = relay.take(10);
    CHECK(keys(rows) == "k ");
    relay.resolve({}, {{rows[0].id, "no queue is bound", 0ms}});
    CHECK(keys(relay.take(10)) == "k ");
}

TEST_CASE("R17: a message leaves though the delivery that made it never comes again, through any relay of the database")
{
    skald::test::stepped_services w{{"orders", "shipping"}};
    auto& orders = w.at("orders");
    orders.db.run(enqueue("k"));  // committed by a process that is no more
    CHECK(orders.relay_due() == 1);
    CHECK(w.transport().waiting("shipping") == 1);
}

TEST_CASE("R19: a message that commits while a batch is in hand is not deleted with it")
{
    database const db;
    db.run(enqueue("a"));
    skald::postgres::postgres_outbox relay{options(db)};
    auto const in_hand = relay.take(10);
    CHECK(keys(in_hand) == "a ");
    db.run("INSERT INTO skald.outbox (id, aggregatetype, aggregateid, type, payload, idempotency_key, destination) "
           "OVERRIDING SYSTEM VALUE VALUES (-1, 't', 'i', 's', '', 'older-id', 'shipping')");
    confirm_all(relay, in_hand);
    CHECK(keys(relay.take(10)) == "older-id ");
}

TEST_CASE("no ghost: what is not committed is never taken, and what is rolled back never comes")
{
    database const db;
    pqxx::connection c{db.url()};
    skald::postgres::postgres_outbox relay{options(db)};
    {
        pqxx::work tx{c};
        tx.exec(enqueue("ghost"));
        CHECK(relay.take(10).empty());
    }
    CHECK(relay.take(10).empty());
}

TEST_CASE("a row that is due later stays until then")
{
    database const db;
    db.run(enqueue("later", ", delay => '1 hour'"));
    skald::postgres::postgres_outbox relay{options(db)};
    CHECK(relay.take(10).empty());
    db.run("UPDATE skald.outbox SET due_at = clock_timestamp()");
    CHECK(keys(relay.take(10)) == "later ");
}

TEST_CASE("R13: never more rows are taken than asked for, oldest first")
{
    database const db;
    for (auto const* key : {"a", "b", "c", "d"}) db.run(enqueue(key));
    skald::postgres::postgres_outbox relay{options(db)};
    CHECK(keys(relay.take(3)) == "a b c ");
    CHECK(db.one("SELECT count(*) FROM (SELECT 1 FROM skald.outbox FOR UPDATE SKIP LOCKED) AS free") == "1");
}

TEST_CASE("R9, R10, R15: two relays never have the same row at once")
{
    database const db;
    for (int i = 0; i < 20; ++i) db.run(enqueue("k" + std::to_string(i)));
    skald::postgres::postgres_outbox first{options(db)}, second{options(db)};
    std::multiset<std::string> taken;
    for (auto const& row : first.take(15)) taken.insert(row.message.id);
    for (auto const& row : second.take(15)) taken.insert(row.message.id);
    CHECK(taken.size() == 20);
    CHECK(std::set(taken.begin(), taken.end()).size() == 20);
}

TEST_CASE("a relay that dies with rows in its hands leaves them for the next")
{
    database const db;
    db.run(enqueue("k"));
    {
        skald::postgres::postgres_outbox dying{options(db)};
        auto const in_hand = dying.take(10);
        CHECK(keys(in_hand) == "k ");
        db.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skald' "
               "AND datname = current_database()");
        CHECK_THROWS_AS(confirm_all(dying, in_hand), skald::ports::fault);
    }
    skald::postgres::postgres_outbox next{options(db)};
    CHECK(keys(next.take(10)) == "k ");
}

TEST_CASE("what was not sent stays with its reason, comes later, and counts; what was sent goes; the rest is free")
{
    database const db;
    for (auto const* key : {"sent", "failed", "unknown"}) db.run(enqueue(key));
    skald::postgres::postgres_outbox relay{options(db)};
    auto const rows = relay.take(10);
    relay.resolve({rows[0].id}, {{rows[1].id, "no queue is bound", 1h}});
    CHECK(db.rows("SELECT idempotency_key, attempts, error, due_at > now() FROM skald.outbox ORDER BY 1") ==
          "failed|1|no queue is bound|t\nunknown|0||f");
    CHECK(keys(relay.take(10)) == "unknown ");
}

TEST_CASE("what was confirmed is deleted though another relay has one of the rows, which is left to that")
{
    database const db;
    for (auto const* key : {"a", "b", "c"}) db.run(enqueue(key));
    skald::postgres::postgres_outbox first{options(db)}, other{options(db)}, memory{options(db)};
    auto const rows = first.take(10);
    first.release();
    auto const in_hand = other.take(1);
    CHECK(keys(in_hand) == "a ");
    confirm_all(memory, rows);
    CHECK(db.rows("SELECT idempotency_key FROM skald.outbox") == "a");
    confirm_all(other, in_hand);
    CHECK(db.one("SELECT count(*) FROM skald.outbox") == "0");
}

TEST_CASE("R12: rows of the outbox are inserted and deleted, never updated")
{
    database const db;
    auto const updates = [&] {
        db.run("SELECT pg_stat_force_next_flush()");
        return db.one("SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'outbox'");
    };
    auto const before = updates();
    db.run(enqueue("a"));
    db.run(enqueue("b"));
    skald::postgres::postgres_outbox relay{options(db)};
    auto const rows = relay.take(10);
    relay.resolve({rows[0].id}, {{rows[1].id, "nacked", 0ms}});
    confirm_all(relay, relay.take(10));
    CHECK(updates() == before);
}

TEST_CASE("bytes of a payload and text of headers come out as they went in")
{
    database const db;
    db.run(
        R"(SELECT skald.enqueue('shipping', 'a-step', 'k', '\x00ff0a'::bytea, headers => '{"x-a": "é\"\\", "n": 7}'))");
    skald::postgres::postgres_outbox relay{options(db)};
    auto const m = relay.take(1).at(0).message;
    CHECK(m.body == std::string("\x00\xff\x0a", 3));
    CHECK(skald::core::find_header(m.headers, "x-a") == "é\"\\");
    CHECK(skald::core::find_header(m.headers, "n") == "7");
}

TEST_CASE("F18: what does not fit the wire is refused when it is enqueued, in words that say so")
{
    database const db;
    CHECK_THROWS_WITH(db.run(enqueue(std::string(256, 'k'))), doctest::Contains("idempotency_key_fits_a_message_id"));
    CHECK_NOTHROW(db.run(enqueue(std::string(255, 'k'))));
    CHECK_THROWS_WITH(db.run("SELECT skald.enqueue(repeat('d', 256), 's', 'k', '')"),
                      doctest::Contains("destination_fits_a_routing_key"));
    CHECK_THROWS_WITH(db.run("SELECT skald.enqueue('d', 's', 'k', convert_to(repeat('x', 1048577), 'UTF8'))"),
                      doctest::Contains("the payload of s has 1048577 bytes: at most 1048576 (1 MiB) may be sent"));
    CHECK_NOTHROW(db.run("SELECT skald.enqueue('d', 's', 'k', convert_to(repeat('x', 1048576), 'UTF8'))"));
}

TEST_CASE("R7: an unroutable message stays in the outbox with its reason, and its neighbours go")
{
    skald::test::stepped_services w{{"orders", "shipping"}};
    auto& orders = w.at("orders");
    orders.db.run("SELECT skald.enqueue('nowhere', 'a-step', 'lost', '{}', '{\"x-saga-itinerary\": \"forward\"}')");
    orders.db.run(enqueue("found"));
    orders.relay_due();
    CHECK(orders.db.rows("SELECT idempotency_key, attempts, error <> '' FROM skald.outbox") == "lost|1|t");
    CHECK(w.transport().waiting("shipping") == 1);

    w.transport().declare("nowhere");
    orders.make_due();
    orders.relay_due();
    CHECK(orders.db.one("SELECT count(*) FROM skald.outbox") == "0");
    CHECK(w.transport().waiting("nowhere") == 1);
}

TEST_CASE("R8: while the broker is away or blocked the relay holds no transaction, and delivers when it is back")
{
    skald::test::stepped_services w{{"orders", "shipping"}};
    auto& orders = w.at("orders");
    orders.db.run(enqueue("k"));
    skald::postgres::postgres_outbox rows{options(orders.db)};
    auto const publisher = w.transport().open_publisher();
    skald::runtime::table_source table{1ms, {rows}};
    skald::runtime::stop_flag stop;
    skald::core::silent_logger log;
    skald::runtime::publish_loop relay{{}, table, *publisher, stop, log, std::mt19937_64{1}};
    auto const open = [&] {
        return orders.db.one("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = "
                             "current_database()");
    };

    w.transport().block();
    {
        std::jthread const running{[&] { relay.run(); }};
        CHECK(open() == "0");
        CHECK(orders.db.one("SELECT count(*) FROM skald.outbox") == "1");
        w.transport().unblock();
        while (w.transport().waiting("shipping") == 0) std::this_thread::yield();
        stop.stop();
        table.wake();
    }
    CHECK(orders.db.one("SELECT count(*) FROM skald.outbox") == "0");
}

TEST_CASE("a nacked message is sent again, later, and counted")
{
    skald::test::stepped_services w{{"orders", "shipping"}};
    auto& orders = w.at("orders");
    orders.db.run(enqueue("k"));
    w.transport().nack_next(1);
    orders.relay_due();
    CHECK(orders.db.one("SELECT attempts FROM skald.outbox") == "1");
    orders.make_due();
    orders.relay_due();
    CHECK(w.transport().waiting("shipping") == 1);
}
