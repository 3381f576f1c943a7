// What a page costs has an end, whatever is in the databases.
#include "console_shop.hpp"

#include "console/acts.hpp"

#include <doctest/doctest.h>

using skald::console::application;
using skald::test::console_shop;
using skald::test::says;
using skald::test::visitor;

TEST_CASE("a body that nests without end is shown as it is")
{
    console_shop s;
    s.park_charge("deep");
    s.at("payments")
        .db.run("UPDATE skald.parked SET body = convert_to(repeat('[', 30000) || repeat(']', 30000), 'UTF8')");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto const one = bob.get("/parked/one", {{"service", "payments"}, {"id", s.parked_id()}});
    CHECK(says(one, std::string(30'000, '[') + ']'));
    auto const saga = bob.get("/saga", {{"key", "deep"}});
    CHECK(saga.status == 200);
    CHECK_FALSE(says(saga, "[[["));
}

TEST_CASE("the page of a large outbox counts up to ten thousand, and has what is refused among those")
{
    console_shop s;
    auto const& db = s.at("payments").db;
    auto const fill = [&](int count) {
        db.run(
            "INSERT INTO skald.outbox (aggregatetype, aggregateid, type, payload, idempotency_key, destination, error) "
            "SELECT 's', 'k' || n, 't', '', 'm' || n, 'orders', CASE WHEN n = 1 THEN 'nobody listens' END "
            "FROM generate_series(1, " +
            std::to_string(count) + ") AS n");
    };
    application const console{s.given()};
    visitor const bob{console, s.bob};
    fill(9'999);
    CHECK(says(bob.get("/outbox"), "9,999 messages wait, the oldest"));
    fill(10'000);
    auto const page = bob.get("/outbox");
    CHECK(says(page, "10,000+ messages wait, of which the first 10,000 were looked at"));
    CHECK(says(page, "nobody listens"));
    CHECK(says(bob.get("/services"), "10,000+"));
}

TEST_CASE("a search of the audit for somebody rare ends, says how far it came, and goes on there")
{
    console_shop s;
    s.at("orders").db.run(
        "INSERT INTO skald.audit (actor, verb) VALUES ('rare', 'saga pause');"
        "INSERT INTO skald.audit (actor, verb) SELECT 'often', 'saga resume' FROM generate_series(1, 20000)");
    s.at("payments").db.run("INSERT INTO skald.audit (actor, verb) VALUES ('rare', 'saga cancel')");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto const first = bob.get("/audit", {{"actor", "rare"}});
    CHECK(says(first, "saga cancel"));
    CHECK_FALSE(says(first, "saga pause"));
    CHECK(says(first, "Searched back to"));
    auto const at = first.body.find("/audit?before=") + 14;
    auto before = first.body.substr(at, first.body.find("&amp;", at) - at);
    for (std::size_t colon{}; (colon = before.find("%3A")) != std::string::npos;) before.replace(colon, 3, ":");
    auto const second = bob.get("/audit", {{"before", before}, {"actor", "rare"}});
    CHECK(says(second, "saga pause"));
    CHECK_FALSE(says(second, "saga cancel"));
    CHECK_FALSE(says(second, "Earlier"));
    CHECK_FALSE(says(bob.get("/audit"), "Searched back to"));
}

TEST_CASE("what was done at one time is on one page of the audit, however much that is")
{
    console_shop s;
    s.at("orders").db.run(
        "INSERT INTO skald.audit (actor, verb, key, at) "
        "SELECT 'ada', 'saga pause', 'before-' || n, timestamptz '2026-01-31 12:00Z' - n * interval '1 s' FROM "
        "generate_series(1, 5) AS n;"
        "INSERT INTO skald.audit (actor, verb, key, at) "
        "SELECT 'ada', 'saga pause', 'at-once-' || n, timestamptz '2026-01-31 12:00Z' FROM generate_series(1, 60) AS n;"
        "INSERT INTO skald.audit (actor, verb, key, at) "
        "SELECT 'ada', 'saga pause', 'after-' || n, timestamptz '2026-01-31 12:00Z' + n * interval '1 s' FROM "
        "generate_series(1, 5) AS n");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto const first = bob.get("/audit");
    CHECK(says(first, ">after-5<"));
    for (int n = 1; n <= 60; ++n) CHECK(says(first, ">at-once-" + std::to_string(n) + "<"));
    CHECK_FALSE(says(first, "before-1"));
    auto const second = bob.get("/audit", {{"before", "2026-01-31T12:00:00.000000Z"}});
    CHECK(says(second, ">before-5<"));
    CHECK_FALSE(says(second, "at-once"));
    CHECK_FALSE(says(second, "Earlier"));
}

TEST_CASE("a step that has begun is found, however many of that key have begun in other scopes")
{
    console_shop s;
    s.order("1");
    s.at("payments")
        .db.run(
            "INSERT INTO skald.idempotency (scope, key, step, home, status) SELECT scope, '1', 'charge-payment', "
            "'orders', "
            "'unknown' FROM (SELECT 'other-' || n FROM generate_series(1, 150) AS n UNION ALL SELECT '') AS s (scope);"
            "INSERT INTO skald.started (scope, key, step, kind, dependency, due_at, lease, in_doubt, calls, looks, "
            "message_id, type, content_type, body, headers, created_at) SELECT i.scope, '1', 'charge-payment', 'call', "
            "'gateway', now() + '1 h', '15 s', true, 1, 3, 'm', 't', 'c', '', '{}', now() - CASE WHEN i.scope = '' "
            "THEN "
            "interval '0' ELSE '1 h' END FROM skald.idempotency i");
    application const console{s.given()};
    CHECK(says(visitor{console, s.ada}.get("/saga", {{"key", "1"}}), "/resolve?service=payments"));
}

TEST_CASE("what has not begun when the time for all acts is over is not tried")
{
    using namespace skald::console;
    console_shop s;
    s.order("1");
    databases const all{s.given()};
    order const what{verb::pause, "a test", "ada"};
    auto const results = carry_out(all, what, {{"orders", "", "1"}}, std::chrono::milliseconds{0});
    REQUIRE(results.size() == 1);
    CHECK(results[0].is == result::outcome::not_tried);
    CHECK(carry_out(all, what, {{"orders", "", "1"}})[0].is == result::outcome::done);
}
