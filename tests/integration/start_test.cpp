// Starting a saga inside the caller's own transaction.
#include "support/database.hpp"

#include "examples/order_saga/order_saga.hpp"

#include <doctest/doctest.h>

using skald::test::database;

namespace {

order_saga::order const pens{"o-1", "ann", "pen", 1, 100};

skald::started start(pqxx::transaction_base& tx, std::string const& key, order_saga::order const& o = pens)
{
    return skald::start(tx, order_saga::place_order, o, {key, ""});
}

std::string count(database const& db)
{
    return db.rows("SELECT (SELECT count(*) FROM skald.saga), (SELECT count(*) FROM skald.outbox)");
}

}  // namespace

TEST_CASE("a saga exists if and only if the transaction that started it commits")
{
    database const db;
    pqxx::connection c{db.url()};
    {
        pqxx::work tx{c};
        CHECK(start(tx, "k").is_new);
    }
    CHECK(count(db) == "0|0");
    pqxx::work tx{c};
    start(tx, "k");
    tx.commit();
    CHECK(count(db) == "1|1");
    CHECK(db.rows(
              "SELECT destination, type, idempotency_key, headers->>'x-saga-home', aggregatetype FROM skald.outbox") ==
          "orders|create-order|k:create-order|orders|place-order");
}

TEST_CASE("a definition under another version starts sagas of that version, and its messages say so")
{
    constexpr auto second = order_saga::place_order.versioned(2);
    database const db;
    pqxx::connection c{db.url()};
    pqxx::work tx{c};
    skald::start(tx, second, pens, {"k", ""});
    tx.commit();
    CHECK(db.one("SELECT version FROM skald.saga") == "2");
    CHECK(db.rows("SELECT type, headers->>'x-saga-version' FROM skald.outbox") == "create-order|2");
}

TEST_CASE("the same key starts the same saga once")
{
    database const db;
    pqxx::connection c{db.url()};
    for (bool const is_new : {true, false}) {
        pqxx::work tx{c};
        auto const s = start(tx, "k");
        CHECK(s.is_new == is_new);
        CHECK(s.key == "k");
        tx.commit();
    }
    CHECK(count(db) == "1|1");
}

TEST_CASE("the same key for other data is an error that names the key")
{
    database const db;
    pqxx::connection c{db.url()};
    pqxx::work tx{c};
    start(tx, "k");
    auto other = pens;
    other.cents = 1;
    CHECK_THROWS_WITH_AS(start(tx, "k", other), doctest::Contains("k was used before"), skald::key_reused);
}

TEST_CASE("a key that another transaction is starting a saga with is in flight")
{
    database const db;
    pqxx::connection one{db.url()},
        other{db.url() + (db.url().find('?') == std::string::npos ? "?" : "&") + "options=-c%20lock_timeout%3D20"};
    pqxx::work first{one};
    start(first, "k");
    pqxx::work second{other};
    CHECK_THROWS_AS(start(second, "k"), skald::key_in_flight);
}

TEST_CASE("without a key Skald makes one, another each time")
{
    database const db;
    pqxx::connection c{db.url()};
    pqxx::work tx{c};
    auto const a = start(tx, ""), b = start(tx, "");
    CHECK(a.key.size() == 36);
    CHECK(a.key != b.key);
}

TEST_CASE("a malformed key or scope is refused before any SQL runs")
{
    database const db;
    pqxx::connection c{db.url()};
    pqxx::work tx{c};
    CHECK_THROWS_AS(start(tx, std::string(181, 'k')), std::invalid_argument);
    CHECK_THROWS_AS(start(tx, "tab\there"), std::invalid_argument);
    CHECK_THROWS_AS(skald::start(tx, order_saga::place_order, pens, {"k", std::string(65, 's')}),
                    std::invalid_argument);
    CHECK_NOTHROW(start(tx, "k"));
}

TEST_CASE("a database that no service owns says what to do")
{
    database const db;
    pqxx::connection c{db.url()};
    pqxx::work tx{c};
    tx.exec("DELETE FROM skald.service");
    CHECK_THROWS_WITH(start(tx, "k"), doctest::Contains("no service owns this database"));
}

TEST_CASE("a saga is found, and commanded, in a transaction of the caller's own")
{
    database const db;
    pqxx::connection c{db.url()};
    {
        pqxx::work tx{c};
        CHECK_FALSE(skald::find_saga(tx, "k"));
        start(tx, "k");
        auto const found = skald::find_saga(tx, "k").value();
        CHECK(found.definition == "place-order");
        CHECK(found.version == 1);
        CHECK(found.status == "running");
        CHECK(nlohmann::json::parse(found.data) == nlohmann::json(pens));
        CHECK_FALSE(found.finished_at);
        CHECK_FALSE(found.deadline_at);
        CHECK_FALSE(skald::find_saga(tx, "k", "another"));
        tx.commit();
    }
    {
        pqxx::work tx{c};
        skald::cancel_saga(tx, "k", {.reason = "a test", .by = "ann"});
    }
    CHECK(db.one("SELECT count(*) FROM skald.control") == "0");  // it was not committed
    pqxx::work tx{c};
    skald::pause_saga(tx, "k");
    skald::resume_saga(tx, "k");
    skald::cancel_saga(tx, "k", {.reason = "a test", .by = "ann"});
    CHECK_THROWS_WITH_AS(skald::retry_saga(tx, "k"), doctest::Contains("the saga k: "), skald::command_refused);
    CHECK_THROWS_AS(skald::cancel_saga(tx, "another"), skald::command_refused);
    tx.commit();
    CHECK(db.rows("SELECT action, reason FROM skald.control") == "cancel|a test");
}
