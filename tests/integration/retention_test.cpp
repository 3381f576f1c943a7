// Retention: records of ended sagas go, from every service and the home last, and nothing is forgotten too early (G19).
#include "admin/maintenance.hpp"
#include "support/stepped_shop.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <thread>

using namespace skald;
using namespace std::chrono_literals;

namespace {

constexpr auto every_record = "SELECT (SELECT count(*) FROM skald.idempotency) + (SELECT count(*) FROM skald.saga)"
                              " + (SELECT count(*) FROM skald.progress) + (SELECT count(*) FROM skald.response)"
                              " + (SELECT count(*) FROM skald.control) + (SELECT count(*) FROM skald.ended)";

/// Moves everything that a database remembers into the past.
void age(test::database const& db, int days)
{
    auto const by = " - interval '" + std::to_string(days) + " days'";
    db.run("UPDATE skald.idempotency SET created_at = created_at" + by + ", updated_at = updated_at" + by +
           "; UPDATE skald.response SET created_at = created_at" + by +
           "; UPDATE skald.control SET requested_at = requested_at" + by +
           "; UPDATE skald.saga SET created_at = created_at" + by + ", finished_at = finished_at" + by);
}

class old_shop : public test::stepped_shop
{
public:
    std::vector<std::string> const names{"orders", "payments", "shipping"};

    /// Runs sagas to their ends, `days` ago. Those of more than one pen find the stock empty, and are compensated.
    void run_orders(int count, int days, int quantity = 1)
    {
        for (int i = 1; i <= count; ++i) order(std::to_string(i), quantity);
        run();
        for (auto const& name : names) age(at(name).db, days);
    }

    /// One batch at one service: "asked|sagas|answers|forgotten".
    std::string purge(std::string const& name, int days = 30, int batch = 500)
    {
        return at(name).db.rows("SELECT asked, sagas, answers, expired FROM skald.purge(interval '" +
                                std::to_string(days) + " days', " + std::to_string(batch) + ")");
    }

    /// Everywhere and often enough for everything that can go.
    void purge_all(int days = 30)
    {
        for (int round = 0; round < 3; ++round)
            for (auto const& name : names) {
                purge(name, days);
                run();
            }
    }

    std::string records()
    {
        std::string text;
        for (auto const& name : names) text += (text.empty() ? "" : " ") + at(name).db.one(every_record);
        return text;
    }
};

}  // namespace

TEST_CASE("records of a saga that ended long ago go from every service, and from the home when all have answered")
{
    old_shop s;
    s.run_orders(2, 31);
    REQUIRE(s.saga_status("1") == "completed");
    auto const effects = s.effects();
    auto const home_before = s.at("orders").db.one(every_record);

    CHECK(s.purge("orders") == "2|0|0|0");
    s.run();
    CHECK(s.at("orders").db.one(every_record) == home_before);
    CHECK(s.at("payments").db.rows("SELECT key, home, steps FROM skald.ended ORDER BY 1") ==
          "1|orders|{charge-payment}\n2|orders|{charge-payment}");

    CHECK(s.purge("payments") == "0|0|0|2");
    CHECK(s.at("payments").db.one(every_record) == "0");
    s.run();
    CHECK(s.at("orders").db.one("SELECT expiring FROM skald.saga WHERE key = '1'") == "{shipping}");
    CHECK(s.purge("orders") == "0|0|0|0");
    CHECK(s.at("orders").db.one(every_record) == home_before);

    CHECK(s.purge("shipping") == "0|0|0|2");
    s.run();
    CHECK(s.purge("orders") == "0|2|0|0");
    CHECK(s.records() == "0 0 0");
    CHECK(s.effects() == effects);
    CHECK(s.parked().empty());
    CHECK(s.purge("orders") == "0|0|0|0");
}

TEST_CASE("a compensated saga is forgotten as a completed one is, the records of its compensations too")
{
    old_shop s;
    s.run_orders(1, 31, 1000);
    REQUIRE(s.saga_status("1") == "compensated");
    s.purge_all();
    CHECK(s.records() == "0 0 0");
}

TEST_CASE("a saga that ended within the retention stays, however long ago it began")
{
    old_shop s;
    s.run_orders(1, 29);
    auto const before = s.records();
    s.at("orders").db.run("UPDATE skald.saga SET created_at = created_at - interval '100 days'");
    s.purge_all();
    CHECK(s.records() == before);
}

TEST_CASE("G19: a saga that has not ended is never touched, whatever its age")
{
    old_shop s;
    for (std::string const status : {"running", "compensating", "stuck"}) {
        CAPTURE(status);
        s.run_orders(1, 1000);
        s.at("orders").db.run("UPDATE skald.saga SET status = '" + status + "', finished_at = NULL");
        auto const before = s.records();
        s.purge_all();
        CHECK(s.records() == before);
        s.at("orders").db.run("UPDATE skald.saga SET status = 'completed', finished_at = now() - interval '1000 days'");
        s.purge_all();
        CHECK(s.records() == "0 0 0");
    }
}

TEST_CASE("a parked delivery holds the records of its saga back, where it is parked")
{
    old_shop s;
    s.run_orders(1, 31);
    auto const park = "INSERT INTO skald.parked (key, step, reason, body, fingerprint)"
                      " VALUES ('1', 'charge-payment', 'malformed', '', sha256('1'))";
    s.at("payments").db.run(park);
    s.purge_all();
    CHECK(s.at("payments").db.one("SELECT count(*) FROM skald.idempotency") == "1");
    CHECK(s.at("shipping").db.one(every_record) == "0");
    CHECK(s.saga_status("1") == "completed");

    s.at("payments").db.run("DELETE FROM skald.parked");
    s.at("orders").db.run(park);
    s.purge_all();
    CHECK(s.at("payments").db.one(every_record) == "0");
    CHECK(s.saga_status("1") == "completed");
    s.at("orders").db.run("DELETE FROM skald.parked");
    s.purge_all();
    CHECK(s.records() == "0 0 0");
}

TEST_CASE("a message in the outbox holds the records of its saga back, under whatever name it was enqueued")
{
    old_shop s;
    s.run_orders(1, 31);
    for (std::string const aggregate : {"'1'", "NULL"}) {
        CAPTURE(aggregate);
        s.at("orders").db.run(
            "SELECT skald.enqueue('payments', 'charge-payment', '1:charge-payment', '{}', delay => '1 h',"
            " aggregateid => " +
            aggregate + ")");
        CHECK(s.purge("orders") == "0|0|0|0");
        s.at("orders").db.run("DELETE FROM skald.outbox");
    }
    CHECK(s.purge("orders") == "1|0|0|0");
}

TEST_CASE("a message that is due before the outbox is taken to begin holds the records of its saga back all the same")
{
    old_shop s;
    s.run_orders(1, 31);
    auto const& db = s.at("orders").db;
    db.run("SELECT skald.enqueue('x', 'x', 'x', '', aggregateid => '1')");
    CHECK(db.one("SELECT asked FROM skald.purge('30 days', 10, 'infinity')") == "0");
    db.run("DELETE FROM skald.outbox");
    CHECK(db.one("SELECT asked FROM skald.purge('30 days', 10, 'infinity')") == "1");
}

TEST_CASE("a record that may still be claimed holds its saga back")
{
    old_shop s;
    s.run_orders(1, 31);
    s.at("orders").db.run("UPDATE skald.idempotency SET status = 'retrying' WHERE step = 'confirm-order'");
    CHECK(s.purge("orders") == "0|0|0|0");
    s.at("orders").db.run("UPDATE skald.idempotency SET status = 'completed'");
    s.at("payments").db.run("UPDATE skald.idempotency SET status = 'retrying'");
    s.purge_all();
    CHECK(s.at("payments").db.one("SELECT count(*) FROM skald.idempotency") == "1");
    CHECK(s.saga_status("1") == "completed");
}

TEST_CASE("a service keeps its records for its own retention, and the home waits for it")
{
    old_shop s;
    s.run_orders(1, 31);
    s.purge("orders");
    s.run();
    CHECK(s.purge("payments", 60) == "0|0|0|0");
    s.purge("shipping");
    s.run();
    CHECK(s.purge("orders") == "0|0|0|0");
    CHECK(s.saga_status("1") == "completed");
    CHECK(s.purge("payments", 30) == "0|0|0|1");
    s.run();
    CHECK(s.purge("orders") == "0|1|0|0");
}

TEST_CASE("until every service has forgotten a saga its key is taken, and then it starts a new one")
{
    old_shop s;
    s.run_orders(1, 31);
    s.purge("orders");
    s.run();
    s.purge("payments");
    s.run();
    CHECK_THROWS(s.order("1", 2));
    s.purge("shipping");
    s.run();
    s.purge("orders");
    s.order("1", 2);
    s.at("orders").db.run("DELETE FROM customer_order");
    s.run();
    CHECK(s.saga_status("1") == "completed");
    CHECK(s.at("payments").db.one("SELECT count(*) FROM charge") == "2");
}

TEST_CASE("an order to forget that comes again, late, leaves the records of a newer saga of the same key alone")
{
    old_shop s;
    s.run_orders(1, 31);
    s.purge("orders");
    s.run();
    auto const forget = s.last_sent("skald.expire");
    auto const to = forget.destination;
    s.purge_all();
    REQUIRE(s.records() == "0 0 0");
    s.at("orders").db.run("DELETE FROM customer_order");
    s.order("1");
    s.run();
    auto const answer = s.last_sent("skald.expired");

    s.at(to).process(test::delivery_of(forget));
    CHECK(s.purge(to) == "0|0|0|0");
    CHECK(s.at(to).db.one("SELECT count(*) FROM skald.idempotency") == "1");
    // Its answer, and a late one from the first time, are not about the saga that is there now.
    s.run();
    age(s.at("orders").db, 31);
    s.purge("orders");
    auto const waits = s.at("orders").db.one("SELECT expiring FROM skald.saga");
    s.at("orders").process(test::delivery_of(answer));
    CHECK(waits == "{payments,shipping}");
    CHECK(s.at("orders").db.one("SELECT expiring FROM skald.saga") == waits);
    CHECK(s.parked().empty());
    // What was asked late goes with the saga that is there now.
    s.run();
    for (auto const* name : {"payments", "shipping"}) age(s.at(name).db, 31);
    s.purge_all();
    CHECK(s.records() == "0 0 0");
}

TEST_CASE("the record of a step that ran after its saga's end goes with the saga, and the home is told no earlier")
{
    old_shop s;
    s.run_orders(1, 41);
    auto const& shipping = s.at("shipping").db;
    SUBCASE("long before the home asks")
    {
        shipping.run("UPDATE skald.idempotency SET created_at = created_at + interval '13 hours',"
                     " updated_at = updated_at + interval '13 hours'");
    }
    SUBCASE("when the home has asked: it may be a later saga's, until the home asks again")
    {
        s.purge("orders");
        s.run();
        shipping.run("UPDATE skald.idempotency SET created_at = now()");
        CHECK(s.purge("shipping") == "0|0|0|0");
        s.at("orders").db.run("UPDATE skald.saga SET asked_at = asked_at - interval '8 days'");
        shipping.run("UPDATE skald.idempotency SET created_at = created_at - interval '8 days';"
                     "UPDATE skald.ended SET asked_at = asked_at - interval '8 days'");
        CHECK(s.purge("shipping") == "0|0|0|0");
        CHECK(shipping.one("SELECT count(*) FROM skald.idempotency") == "1");
    }
    s.purge_all();
    CHECK(s.records() == "0 0 0");
}

TEST_CASE("a service that does not answer is asked again after a week")
{
    old_shop s;
    s.run_orders(1, 31);
    CHECK(s.purge("orders") == "1|0|0|0");
    s.at("orders").db.run("DELETE FROM skald.outbox");
    CHECK(s.purge("orders") == "0|0|0|0");
    s.at("orders").db.run("UPDATE skald.saga SET asked_at = asked_at - interval '8 days'");
    CHECK(s.purge("orders") == "1|0|0|0");
    s.purge_all();
    CHECK(s.records() == "0 0 0");
}

TEST_CASE("a batch is bounded, and what is locked is left for the next without waiting")
{
    old_shop s;
    s.run_orders(3, 31);
    CHECK(s.purge("orders", 30, 2) == "2|0|0|0");
    pqxx::connection c{s.at("orders").db.url()};
    {
        pqxx::work holds{c};
        holds.exec("SELECT FROM skald.saga WHERE expiring IS NULL FOR UPDATE");
        CHECK(s.purge("orders", 30, 2) == "0|0|0|0");
    }
    CHECK(s.purge("orders", 30, 2) == "1|0|0|0");
    s.run();
    CHECK(s.purge("payments", 30, 2) == "0|0|0|2");
    CHECK(s.purge("payments", 30, 2) == "0|0|0|1");
}

TEST_CASE("messages that ask to forget stay within a message's size")
{
    old_shop s;
    s.run_orders(1, 31);
    s.at("orders").db.run("INSERT INTO skald.saga (scope, key, definition, status, data, itinerary, finished_at)"
                          " SELECT '', repeat('\"', 170) || n, definition, status, data, itinerary, finished_at"
                          "   FROM skald.saga, generate_series(1, 1000) n");
    CHECK(s.purge("orders", 30, 1000) == "1000|0|0|0");
    CHECK(s.at("orders").db.one("SELECT max(octet_length(payload)) < 100000 AND count(*) < 30 FROM skald.outbox") ==
          "t");
    CHECK(s.at("orders").db.one(
              "SELECT sum(jsonb_array_length(convert_from(payload, 'UTF8')::jsonb)) FROM skald.outbox") == "2000");
}

TEST_CASE("answers to requests that started no saga go by their age")
{
    old_shop s;
    auto const& db = s.at("orders").db;
    db.run("INSERT INTO skald.idempotency (scope, key, step) VALUES ('', 'old', ''), ('', 'new', '');"
           "INSERT INTO skald.response (scope, key, status_code, created_at)"
           " VALUES ('', 'old', 404, now() - interval '31 days'), ('', 'new', 404, now())");
    CHECK(s.purge("orders") == "0|0|1|0");
    CHECK(db.one("SELECT string_agg(key, ' ') FROM skald.idempotency") == "new");
    CHECK(db.one("SELECT string_agg(key, ' ') FROM skald.response") == "new");
}

TEST_CASE("nothing is purged while the outbox is far behind; what is only for later holds back its own saga alone")
{
    old_shop s;
    s.run_orders(2, 31);
    auto const& db = s.at("orders").db;
    db.run("SELECT skald.enqueue('x', 'x', '1:x', '') FROM generate_series(1, 10001)");
    CHECK(s.purge("orders") == "0|0|0|0");
    CHECK(db.one("SELECT postponed FROM skald.purge('30 days', 10)") == "t");
    db.run("UPDATE skald.outbox SET due_at = due_at + interval '1 hour'");
    CHECK(s.purge("orders") == "1|0|0|0");
    CHECK(db.one("SELECT key FROM skald.saga WHERE expiring IS NOT NULL") == "2");
    db.run("DELETE FROM skald.outbox");
    CHECK(db.one("SELECT postponed FROM skald.purge('30 days', 10)") == "f");
}

TEST_CASE("a retention below a day, and a batch without bounds, are refused")
{
    test::database const db;
    CHECK_THROWS_WITH(db.run("SELECT skald.purge('23 hours', 10)"), doctest::Contains("too short"));
    CHECK_THROWS_WITH(db.run("SELECT skald.purge('30 days', 0)"), doctest::Contains("1 to 1000 sagas"));
    CHECK_THROWS_WITH(db.run("SELECT skald.purge('30 days', 1001)"), doctest::Contains("1 to 1000 sagas"));
}

TEST_CASE("the maintenance purges what is old, batch after batch, and says what it did")
{
    old_shop s;
    s.run_orders(5, 31);
    runtime::backlog backlog;
    metrics::database_figures figures;
    runtime::deliveries_seen seen;
    runtime::stop_flag stop;
    core::silent_logger log;
    admin::maintenance_options options;
    options.batch_max = 2;
    options.purge_every = 10ms;
    options.outbox_max = 0;
    admin::maintenance keeper{options,           {.url = s.at("orders").db.url()}, backlog, figures, seen, stop, log,
                              std::mt19937_64{1}};
    std::jthread const thread{[&] { keeper.run(); }};
    CHECK(testing::wait_until(
        [&] { return s.at("orders").db.one("SELECT count(*) FROM skald.saga WHERE expiring IS NULL") == "0"; }));
    stop.stop();
}
