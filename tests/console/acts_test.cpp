// Acts: by whom, on what, and what is left of them in the audit.
#include "console_shop.hpp"

#include <doctest/doctest.h>

using skald::console::application;
using skald::test::console_shop;
using skald::test::fields;
using skald::test::says;
using skald::test::visitor;

namespace {

fields pausing(std::string const& key, std::string const& reason = "a test", std::string const& confirm = "")
{
    return {{"verb", "pause"},
            {"saga", "orders\n\n" + key},
            {"reason", reason},
            {"confirm", confirm.empty() ? key : confirm}};
}

std::string audit(console_shop& s, std::string const& service)
{
    return s.at(service).db.rows("SELECT actor LIKE 'ada as %', verb, key, coalesce(detail->>'why', detail->>'reason') "
                                 "FROM skald.audit ORDER BY id");
}

}  // namespace

TEST_CASE("an operator pauses a saga, and the audit has who, what and why")
{
    console_shop s;
    s.order("1");
    application const console{s.given()};
    visitor const ada{console, s.ada};
    CHECK(says(ada.get("/act", {{"verb", "pause"}, {"saga", "orders\n\n1"}}), "Pause 1 saga?"));
    auto const done = ada.post("/act", pausing("1"));
    CHECK(done.status == 200);
    CHECK(says(done, "pause: 1 of 1 done"));
    CHECK(audit(s, "orders") == "t|saga pause|1|a test");
    CHECK(says(ada.get("/saga", {{"key", "1"}}), ">paused</span>"));
    CHECK(says(ada.get("/audit"), "saga pause"));
}

TEST_CASE("a viewer acts on nothing, and is offered nothing")
{
    console_shop s;
    s.order("1");
    s.park_charge("2");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto form = pausing("1");
    form.emplace("form_key", visitor{console, s.ada}.form_key());
    CHECK(bob.post_as_stranger("/act", form).status == 403);
    CHECK(bob.get("/act", {{"verb", "pause"}, {"saga", "orders\n\n1"}}).status == 403);
    CHECK(bob.get("/act", {{"verb", "drop"}, {"parked", "payments\n" + s.parked_id()}}).status == 403);
    CHECK(says(bob.get("/saga", {{"key", "2"}}), "bob is a viewer here"));
    CHECK_FALSE(says(bob.get("/"), "type=\"checkbox\""));
    CHECK(audit(s, "orders").empty());
}

TEST_CASE("a form without the key of its page does nothing")
{
    console_shop s;
    s.order("1");
    application const console{s.given()};
    visitor const ada{console, s.ada};
    CHECK(ada.post_as_stranger("/act", pausing("1")).status == 403);
    auto form = pausing("1");
    form.emplace("form_key", std::string(64, '0'));
    CHECK(ada.post_as_stranger("/act", form).status == 403);
    CHECK(audit(s, "orders").empty());
}

TEST_CASE("a console without an operating address only reads")
{
    console_shop s;
    s.order("1");
    auto given = s.given();
    given.operating.clear();
    application const console{given};
    visitor const ada{console, s.ada};
    CHECK(says(ada.get("/saga", {{"key", "1"}}), "This console only reads orders"));
    CHECK(ada.get("/act", {{"verb", "pause"}, {"saga", "orders\n\n1"}}).status == 403);
}

TEST_CASE("what reads can't write, whatever its role may do")
{
    console_shop s;
    skald::console::database db{"orders", s.at("orders").db.url(), std::chrono::seconds{5},
                                skald::console::database::rights::reads};
    auto const write = [](skald::postgres::connection& c) { return c.run("DELETE FROM skald.saga").size(); };
    CHECK_THROWS_WITH_AS(db.ask(write), doctest::Contains("read-only transaction"), skald::console::away);
}

TEST_CASE("an act needs a reason, and the thing's name typed")
{
    console_shop s;
    s.order("1");
    s.order("2");
    application const console{s.given()};
    visitor const ada{console, s.ada};
    CHECK(ada.post("/act", pausing("1", " ")).status == 422);
    CHECK(ada.post("/act", pausing("1", "a test", "2")).status == 422);
    CHECK(ada.post("/act", pausing("1", std::string(501, 'x'))).status == 422);
    auto both = pausing("1", "a test", "1");
    both.emplace("saga", "orders\n\n2");
    CHECK(ada.post("/act", both).status == 422);
    CHECK(audit(s, "orders").empty());
    both.find("confirm")->second = "2";
    CHECK(says(ada.post("/act", both), "pause: 2 of 2 done"));
}

TEST_CASE("a preview says what would be refused, and why")
{
    console_shop s;
    s.order("1");
    s.run();
    s.order("2");
    application const console{s.given()};
    auto const page = visitor{console, s.ada}.get(
        "/act", {{"verb", "cancel"}, {"saga", "orders\n\n1"}, {"saga", "orders\n\n2"}, {"saga", "orders\n\n3"}});
    CHECK(says(page, "saga 1 has ended: it is completed"));
    CHECK(says(page, "no such saga was started here"));
    CHECK(says(page, "It would be done to 1 of 3."));
}

TEST_CASE("a replay puts a delivery back with its reason in the audit, and its step runs once")
{
    console_shop s;
    s.park_charge("1");
    application const console{s.given()};
    visitor const ada{console, s.ada};
    auto const id = s.parked_id();
    fields const form{{"verb", "replay"}, {"parked", "payments\n" + id}, {"reason", "fixed"}, {"confirm", id}};
    CHECK(says(ada.post("/act", form), "replay: 1 of 1 done"));
    CHECK(says(ada.post("/act", form), "replay: 0 of 1 done"));
    CHECK(audit(s, "payments") == "t|parked replay|1|fixed");
    s.run();
    CHECK(s.saga_status("1") == "completed");
}

TEST_CASE("what a saga waits for is dropped only by someone who says so")
{
    console_shop s;
    s.park_charge("1");
    application const console{s.given()};
    visitor const ada{console, s.ada};
    auto const id = s.parked_id();
    fields form{{"verb", "drop"}, {"parked", "payments\n" + id}, {"reason", "lost"}, {"confirm", id}};
    CHECK(says(ada.get("/act", {{"verb", "drop"}, {"parked", "payments\n" + id}}), "can never go on without it"));
    CHECK(says(ada.post("/act", form), "drop: 0 of 1 done"));
    form.emplace("forced", "yes");
    CHECK(says(ada.post("/act", form), "drop: 1 of 1 done"));
    CHECK(audit(s, "payments") == "t|parked drop|1|lost");
}

TEST_CASE("a form that names nothing, or too much, is refused")
{
    console_shop s;
    application const console{s.given()};
    visitor const ada{console, s.ada};
    CHECK(ada.get("/act", {{"verb", "pause"}}).status == 400);
    CHECK(ada.get("/act", {{"verb", "explode"}, {"saga", "orders\n\n1"}}).status == 400);
    CHECK(ada.get("/act", {{"verb", "pause"}, {"saga", "orders"}}).status == 400);
    CHECK(ada.get("/act", {{"verb", "drop"}, {"parked", "payments\n-1"}}).status == 400);
    CHECK(ada.get("/act", {{"verb", "pause"}, {"saga", "strangers\n\n1"}}).status == 403);
    fields many{{"verb", "pause"}};
    for (int i = 0; i < 101; ++i) many.emplace("saga", "orders\n\n" + std::to_string(i));
    CHECK(ada.get("/act", many).status == 400);
}
