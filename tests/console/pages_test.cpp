// The pages say what the databases say, whatever is in them.
#include "console_shop.hpp"

#include "skald_console_queries.hpp"

#include "admin/explanation.hpp"
#include "admin/saga_view.hpp"
#include "core/text.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

using skald::console::application;
using skald::test::console_shop;
using skald::test::says;
using skald::test::visitor;

namespace {

std::size_t place(skald::console::response const& page, std::string const& text)
{
    return page.body.find(text);
}

}  // namespace

TEST_CASE("the list has the stuck first, then the oldest under way, then what ended last")
{
    console_shop s;
    s.order("ended-1");
    s.run();
    s.order("ended-2");
    s.run();
    s.park_charge("stuck");
    s.order("old");
    s.order("young");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto const page = bob.get("/");
    REQUIRE(page.status == 200);
    std::vector<std::size_t> places;
    for (auto const* key : {">stuck</code>", ">old</code>", ">young</code>", ">ended-2</code>", ">ended-1</code>"})
        places.push_back(place(page, key));
    CHECK(std::ranges::is_sorted(places));
    CHECK(places.back() != std::string::npos);
}

TEST_CASE("each filter finds what it names and nothing else")
{
    console_shop s;
    s.order("tea-1");
    s.order("cup-1", 1'000'000);  // more than there is: out of stock
    s.run();
    s.order("tea-2");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto const only = [&](skald::test::fields const& filter, std::string const& key, std::string const& not_key) {
        auto const page = bob.get("/", filter);
        CAPTURE(page.body);
        CHECK(says(page, ">" + key + "</code>"));
        CHECK_FALSE(says(page, ">" + not_key + "</code>"));
    };
    only({{"status", "compensated"}}, "cup-1", "tea-1");
    only({{"status", "completed"}}, "tea-1", "cup-1");
    only({{"status", "running"}}, "tea-2", "tea-1");
    only({{"key", "tea-"}}, "tea-2", "cup-1");
    only({{"reason", "OUT of"}}, "cup-1", "tea-1");
    only({{"definition", "place-order"}}, "tea-1", "nothing");
    only({{"home", "orders"}}, "tea-1", "nothing");
    for (auto const& nothing : std::vector<skald::test::fields>{
             {{"definition", "other"}}, {{"scope", "x"}}, {{"older", "1h"}}, {{"home", "payments"}}, {{"key", "zzz"}}})
        CHECK(says(bob.get("/", nothing), "No saga matches"));
    for (auto const& wrong : std::vector<skald::test::fields>{
             {{"status", "odd"}}, {{"older", "soon"}}, {{"key", "\xff"}}, {{"after", "00"}}})
        CHECK(bob.get("/", wrong).status == 400);
}

TEST_CASE("pages that follow each other show every saga once")
{
    console_shop s;
    for (int i = 0; i < 45; ++i) s.order("open-" + std::to_string(100 + i));
    s.at("orders").db.run("UPDATE skald.saga SET created_at = '2026-01-01'");  // all at one time
    application const console{s.given()};
    visitor const bob{console, s.bob};
    for (skald::test::fields const& filter : {skald::test::fields{}, skald::test::fields{{"key", "open-"}}}) {
        std::string seen;
        auto asked = filter;
        for (int pages = 1;; ++pages) {
            REQUIRE(pages < 5);
            auto const page = bob.get("/", asked);
            seen += page.body;
            auto const at = page.body.find("after=");
            if (at == std::string::npos) break;
            asked = filter;
            asked.emplace("after", page.body.substr(at + 6, page.body.find('"', at) - at - 6));
        }
        for (int i = 0; i < 45; ++i) {
            auto const link = ">open-" + std::to_string(100 + i) + "</code>";
            CHECK(seen.find(link) != std::string::npos);
            CHECK(seen.find(link) == seen.rfind(link));
        }
    }
}

TEST_CASE("a saga's page has the sentence of the command line")
{
    console_shop s;
    s.park_charge("1");
    skald::postgres::connection c{{.url = s.at("orders").db.url()}};
    auto const sentence = skald::admin::explain(skald::admin::find_saga(c, {"", "1"}).value());
    application const console{s.given()};
    auto const page = visitor{console, s.bob}.get("/saga", {{"home", "orders"}, {"key", "1"}});
    REQUIRE(page.status == 200);
    // Without its times, which go on, and with its first letter as a sentence has it.
    CHECK(says(page, "S" + sentence.substr(1, sentence.find(',') - 1)));
    CHECK(says(page, "its message has been parked at payments for "));
    CHECK(says(page, "skald saga retry 1"));
    CHECK(visitor{console, s.bob}.get("/saga", {{"key", "1"}}).status == 200);
    CHECK(visitor{console, s.bob}.get("/saga", {{"key", "2"}}).status == 404);
    CHECK(visitor{console, s.bob}.get("/saga", {{"home", "payments"}, {"key", "1"}}).status == 404);
}

TEST_CASE("a saga of which nobody knows what a call has done is counted, found, and told on its page")
{
    console_shop s;
    s.order("1");
    s.order("2");
    s.at("orders").db.run("UPDATE skald.saga SET status = 'unknown' WHERE key = '1'");
    s.at("payments")
        .db.run("INSERT INTO skald.idempotency (scope, key, step, home, status, error)"
                " VALUES ('', '1', 'charge-payment', 'orders', 'unknown', 'its list is late');"
                "INSERT INTO skald.started (scope, key, step, kind, dependency, due_at, lease, in_doubt, calls, looks, "
                "message_id, type, content_type,"
                " body, headers) VALUES ('', '1', 'charge-payment', 'call', 'gateway', clock_timestamp(), '15 s', "
                "true, 1, 3, 'm', 't', 'c', '', '{}')");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto const list = bob.get("/", {{"status", "unknown"}});
    CHECK(says(list, ">1</code>"));
    CHECK_FALSE(says(list, ">2</code>"));
    CHECK(says(list, "<span class=\"figure\">1</span><span class=\"label\">unknown</span>"));
    s.at("orders").db.run("INSERT INTO skald.progress (scope, key, step, service, status, attempts, error, at) VALUES "
                          "('', '1', 'charge-payment', 'payments', 'unknown', 1, 'its list is late', now())");
    auto const steps = bob.get("/steps");
    CHECK(says(steps, "Steps that hold sagas up"));
    CHECK(says(steps, "<span class=\"no\">unknown</span>"));
    auto const page = bob.get("/saga", {{"key", "1"}});
    CHECK(says(page, "nobody knows what its call has done"));
    CHECK(says(page, "its list is late"));
    CHECK_FALSE(says(page, "no effect"));

    s.at("payments").db.run("UPDATE skald.idempotency SET status = 'started'");
    auto const page_of_started = bob.get("/saga", {{"key", "1"}});
    CAPTURE(page_of_started.body);
    CHECK(says(page_of_started, "waits for an answer to what its call of gateway has done"));
}

TEST_CASE("a dependency that is ill is shown with the process that says so, until that says nothing any more")
{
    console_shop s;
    application const console{s.given()};
    visitor const bob{console, s.bob};
    CHECK_FALSE(says(bob.get("/services"), "Dependencies that are ill"));
    s.at("payments")
        .db.run("INSERT INTO skald.breaker (owner, dependency, state, why, ok, failed, slow, tries_at) VALUES "
                "('skald/payments/7@till', 'gateway', 'open', '6 of 8 calls failed', 2, 6, 0, now() + '1 min')");
    auto const page = bob.get("/services");
    CHECK(says(page, "skald/payments/7@till"));
    CHECK(says(page, "<span class=\"no\">open</span>"));
    CHECK(says(page, "6 of 8 calls failed"));
    s.at("payments").db.run("UPDATE skald.breaker SET seen_at = now() - interval '1 min'");
    auto const later = bob.get("/services");
    CHECK(says(later, "says nothing any more"));
    CHECK_FALSE(says(later, "<span class=\"no\">open</span>"));
}

TEST_CASE("a station says how often its message was delivered, where that is counted")
{
    console_shop s;
    s.order("1");
    s.run();
    s.at("payments")
        .db.run("CREATE TABLE IF NOT EXISTS skald.deliveries_seen (scope skald.scope, key skald.key, step skald.step, "
                "home text, "
                "delivered bigint, duplicates bigint, last_at timestamptz)");
    s.at("payments")
        .db.run(
            "INSERT INTO skald.deliveries_seen VALUES ('', '1', 'charge-payment', 'orders', 4, 3, clock_timestamp())");
    application const console{s.given()};
    CHECK(says(visitor{console, s.bob}.get("/saga", {{"key", "1"}}), "delivered 4× · applied once"));
}

TEST_CASE("a script in a body, a reason or a key stays text on every page")
{
    console_shop s;
    s.park_charge("<script>1");
    std::string const evil = "<script>alert(1)</script>";
    s.at("payments").db.run("UPDATE skald.parked SET error = '" + evil + "', body = '" + evil + "'");
    s.at("orders").db.run("UPDATE skald.saga SET reason = '" + evil + "', data = '{\"name\": \"" + evil + "\"}'");
    s.at("orders").db.run("INSERT INTO skald.audit (actor, verb, key, detail) VALUES ('" + evil + "', '" + evil +
                          "', '" + evil + "', '{\"reason\": \"" + evil + "\"}')");
    application const console{s.given()};
    visitor const ada{console, s.ada};
    auto const id = s.parked_id();
    for (auto const& [path, query] : std::vector<std::pair<std::string, skald::test::fields>>{
             {"/", {}},
             {"/", {{"key", "<script>"}, {"definition", evil}, {"home", evil}}},
             {"/saga", {{"home", "orders"}, {"key", "<script>1"}}},
             {"/saga", {{"home", evil}, {"key", evil}}},
             {"/parked", {{"reason", evil}}},
             {"/parked", {}},
             {"/parked/one", {{"service", "payments"}, {"id", id}}},
             {"/parked/one", {{"service", evil}, {"id", evil}}},
             {"/outbox", {}},
             {"/steps", {}},
             {"/services", {}},
             {"/audit", {{"actor", "<script>"}}},
             {"/audit", {}},
             {"/act", {{"verb", "drop"}, {"parked", "payments\n" + id}}},
             {"/act", {{"verb", "cancel"}, {"saga", "orders\n\n<script>1"}}},
             {"/act", {{"verb", evil}}},
             {evil, {}}}) {
        CAPTURE(path);
        auto const page = ada.get(path, query);
        CHECK(page.body.find("<script>") == std::string::npos);
        CHECK(page.body.find("<script src=") != std::string::npos);
    }
    CHECK(says(ada.get("/parked/one", {{"service", "payments"}, {"id", id}}), "&lt;script&gt;alert(1)&lt;/script&gt;"));
}

TEST_CASE("a page is right while a service's database is away, and says that it is")
{
    console_shop s;
    s.order("1");
    s.run();
    auto given = s.given();
    given.services[1].url = "postgresql://127.0.0.1:1/payments";
    given.operating.clear();
    application const console{given};
    visitor const bob{console, s.bob};
    auto const saga = bob.get("/saga", {{"key", "1"}});
    CHECK(saga.status == 200);
    CHECK(says(saga, "its database is away: shown as its home knows it"));
    CHECK(says(saga, "done +"));
    CHECK(says(bob.get("/"), ">1</code>"));
    CHECK(says(bob.get("/", {{"key", "2"}}), "No saga matches in a database that answers."));
    CHECK(says(bob.get("/audit"), "Nothing that matches is in a database that answers."));
    for (auto const* path : {"/", "/parked", "/outbox", "/steps", "/services", "/audit"})
        CHECK(says(bob.get(path), "<b>payments</b> does not answer"));
    auto const unknown = bob.get("/saga", {{"key", "2"}});
    CHECK(unknown.status == 503);
    CHECK(says(unknown, "It may have been started there."));
    auto at_home = given;
    at_home.services = {{"payments", given.services[1].url}};
    CHECK(visitor{application{at_home}, s.bob}.get("/saga", {{"home", "payments"}, {"key", "1"}}).status == 503);
}

TEST_CASE("every statement of the console prepares against the migrated schema")
{
    console_shop s;
    auto& db = s.at("payments").db;
    db.run("CREATE TABLE IF NOT EXISTS skald.deliveries_seen (scope text, key text, step text, home text, delivered "
           "bigint)");
    skald::postgres::connection c{{.url = db.url()}};
    for (auto const& [name, text] : skald::console::queries::all) {
        CAPTURE(name);
        if (text.starts_with("SET ")) continue;
        CHECK_NOTHROW(c.run("PREPARE console_" + std::string{name} + " AS " + std::string{text}));
    }
}

TEST_CASE("a role that only reads is enough for every page")
{
    console_shop s;
    s.park_charge("1");
    auto const role = "looks_" + std::to_string(::getpid());
    s.at("orders").db.run("CREATE ROLE " + role + " LOGIN");
    auto given = s.given();
    for (auto& one : given.services) {
        auto& db = s.at(one.service).db;
        db.run("GRANT USAGE ON SCHEMA skald TO " + role);
        db.run("GRANT SELECT ON ALL TABLES IN SCHEMA skald TO " + role);
        auto const user = one.url.find("://") + 3;
        one.url.replace(user, one.url.find_first_of(":@", user) - user, role);
    }
    {
        application const console{given};
        visitor const ada{console, s.ada};
        auto const id = s.parked_id();
        for (auto const& [path, query] : std::vector<std::pair<std::string, skald::test::fields>>{
                 {"/", {}},
                 {"/saga", {{"key", "1"}}},
                 {"/parked", {}},
                 {"/parked/one", {{"service", "payments"}, {"id", id}}},
                 {"/outbox", {}},
                 {"/steps", {}},
                 {"/versions", {}},
                 {"/services", {}},
                 {"/audit", {}},
                 {"/act", {{"verb", "replay"}, {"parked", "payments\n" + id}}},
                 {"/act", {{"verb", "cancel"}, {"saga", "orders\n\n1"}}}}) {
            CAPTURE(path);
            auto const page = ada.get(path, query);
            CHECK(page.status == 200);
            CHECK_FALSE(says(page, "permission denied"));
            CHECK_FALSE(says(page, "does not answer"));
        }
    }
    for (auto const& one : given.services) s.at(one.service).db.run("DROP OWNED BY " + role);
    s.at("orders").db.run("DROP ROLE " + role);
}

TEST_CASE("an address that leads to another service's database is away, and not taken for it")
{
    console_shop s;
    auto given = s.given();
    std::swap(given.services[0].url, given.services[1].url);
    application const console{given};
    CHECK(
        says(visitor{console, s.bob}.get("/services"), "the address given for orders leads to a database of payments"));
}

TEST_CASE("every answer forbids scripts and frames of others, and tells no one its address")
{
    console_shop s;
    application const console{s.given()};
    visitor const bob{console, s.bob}, nobody{console, ""};
    for (auto const& page : {bob.get("/"), bob.get("/nope"), bob.get("/style.css"), nobody.get("/")}) {
        std::map<std::string, std::string> const headers{page.headers.begin(), page.headers.end()};
        CHECK(headers.at("Content-Security-Policy").find("default-src 'none'; script-src 'self'; style-src 'self'") ==
              0);
        CHECK(headers.at("Content-Security-Policy").find("unsafe") == std::string::npos);
        CHECK(headers.at("Content-Security-Policy").find("frame-ancestors 'none'") != std::string::npos);
        CHECK(headers.at("Referrer-Policy") == "same-origin");
        CHECK(headers.at("X-Content-Type-Options") == "nosniff");
    }
    CHECK(bob.get("/").body.find(" style=") == std::string::npos);
    CHECK(nobody.get("/").status == 401);
    CHECK(nobody.get("/saga", {{"key", "1"}}).status == 401);
}

TEST_CASE("a list that a filter leaves empty says that it is the filter")
{
    console_shop s;
    application const console{s.given()};
    visitor const bob{console, s.bob};
    CHECK(says(bob.get("/parked"), "Nothing is parked."));
    CHECK(says(bob.get("/audit"), "Nothing was done by hand."));
    for (auto const* name : {"reason", "key", "scope", "step"})
        CHECK(says(bob.get("/parked", {{name, "none"}}), "Nothing that is parked matches the filter."));
    CHECK(says(bob.get("/audit", {{"actor", "none"}}), "Nothing that was done by hand matches the filter."));
}

TEST_CASE("an address that no page has given is refused, and no database is blamed for it")
{
    console_shop s;
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto const cursor = [](std::string const& place) {
        return skald::core::to_hex("[1,\"" + place + "\",\"orders\",\"\",\"1\",false]");
    };
    for (auto const& [path, query] : std::vector<std::pair<std::string, skald::test::fields>>{
             {"/", {{"after", cursor("soon")}}},
             {"/", {{"after", cursor("\\u0000")}}},
             {"/audit", {{"before", "soon"}}},
             {"/parked/one", {{"service", "payments"}, {"id", "x"}}},
             {"/parked", {{"after", "zz"}}},
             {"/parked", {{"after", "zz"}, {"service", "payments"}}},
             {"/parked", {{"after", "7"}}},
             {"/parked", {{"after", "7"}, {"service", "nobody"}}},
             {"/parked", {{"key", "\xff"}}}}) {
        auto const page = bob.get(path, query);
        CAPTURE(page.body);
        CHECK(page.status == 400);
        CHECK_FALSE(says(page, "does not answer"));
        CHECK_FALSE(says(page, "Delivery 0"));
    }
    CHECK(bob.get("/", {{"after", cursor("2026-01-01T00:00:00.000000Z")}}).status == 200);
    CHECK(bob.get("/parked", {{"after", "7"}, {"service", "payments"}}).status == 200);
}

TEST_CASE("a database that refuses a statement is not said to be silent")
{
    console_shop s;
    auto const& db = s.at("payments").db;
    db.run("ALTER TABLE skald.outbox RENAME TO outbox_gone");
    application const console{s.given()};
    auto const page = visitor{console, s.bob}.get("/outbox");
    db.run("ALTER TABLE skald.outbox_gone RENAME TO outbox");
    CHECK(says(page, "<b>payments</b> answers with an error"));
}
