// Acts: by whom, on what, and what is left of them in the audit.
#include "console_shop.hpp"

#include "support/event_log.hpp"
#include "support/server_setting.hpp"
#include "support/session.hpp"

#include <doctest/doctest.h>

#include <thread>

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
    auto const log = std::make_shared<skald::test::event_log>();
    application const console{s.given(), log};
    visitor const ada{console, s.ada};
    CHECK(says(ada.get("/act", {{"verb", "pause"}, {"saga", "orders\n\n1"}}), "Pause 1 saga?"));
    auto const done = ada.post("/act", pausing("1"));
    CHECK(done.status == 200);
    CHECK(says(done, "pause: 1 of 1 done"));
    CHECK(audit(s, "orders") == "t|saga pause|1|a test");
    CHECK(says(ada.get("/saga", {{"key", "1"}}), ">paused</span>"));
    CHECK(says(ada.get("/audit"), "saga pause"));
    REQUIRE(log->count("console.act") == 1);
    CHECK(log->lines("console.act")[0] == "now info service console.act name=ada peer=\"\" act=pause status=200\n");
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
    s.order("1");
    application const console{s.given()};
    visitor const ada{console, s.ada};
    CHECK(ada.get("/act", {{"verb", "pause"}}).status == 400);
    CHECK(ada.get("/act", {{"verb", "explode"}, {"saga", "orders\n\n1"}}).status == 400);
    CHECK(ada.get("/act", {{"verb", "pause"}, {"saga", "orders"}}).status == 400);
    CHECK(ada.get("/act", {{"verb", "drop"}, {"parked", "payments\n-1"}}).status == 400);
    CHECK(ada.get("/act", {{"verb", "pause"}, {"saga", "strangers\n\n1"}}).status == 403);
    fields many{{"verb", "pause"}};
    for (int i = 0; i < 101; ++i) many.emplace("saga", "orders\n\n" + std::to_string(i));
    CHECK(says(ada.get("/act", many), "101 were chosen: choose at most 100 at a time."));
    CHECK(ada.get("/act", many).status == 400);
    CHECK(ada.post("/act", many).status == 400);
}

TEST_CASE("what was chosen in a list is shown before it is done, and is in no address")
{
    console_shop s;
    s.park_charge("1");
    for (int i = 100; i < 140; ++i) s.order(std::to_string(i));
    application const console{s.given()};
    visitor const ada{console, s.ada};
    for (auto const* list : {"/", "/parked"})
        CHECK(says(ada.get(list),
                   "<form method=\"post\" action=\"/act/preview\"><input type=\"hidden\" name=\"form_key\""));
    fields chosen{{"verb", "pause"}};
    for (int i = 100; i < 140; ++i) chosen.emplace("saga", "orders\n\n" + std::to_string(i));
    auto const page = ada.post("/act/preview", chosen);
    CHECK(page.status == 200);
    CHECK(says(page, "Pause 40 sagas?"));
    CHECK(ada.post_as_stranger("/act/preview", chosen).status == 403);
    CHECK(audit(s, "orders").empty());
}

TEST_CASE("what was not tried is not said to have been done, nor to stand in the audit")
{
    console_shop s;
    for (auto const* key : {"1", "2", "3"}) s.order(key);
    auto given = s.given();
    given.operating[0].url = "postgresql://127.0.0.1:1/orders";
    application const console{given};
    fields form{{"verb", "pause"}, {"reason", "a test"}, {"confirm", "3"}};
    for (auto const* key : {"1", "2", "3"}) form.emplace("saga", std::string{"orders\n\n"} + key);
    auto const page = visitor{console, s.ada}.post("/act", form);
    CHECK(says(page, "pause: 0 of 3 done"));
    CHECK(says(page, "3 not tried."));
    CHECK_FALSE(says(page, "may have been done"));
    CHECK_FALSE(says(page, "It stands in the audit"));
}

TEST_CASE("only the act whose connection broke on the way may have been done")
{
    console_shop s;
    for (auto const* key : {"1", "2", "3"}) s.order(key);
    auto const& db = s.at("orders").db;
    application const console{s.given()};
    visitor const ada{console, s.ada};
    fields form{{"verb", "pause"}, {"reason", "a test"}, {"confirm", "3"}};
    for (auto const* key : {"1", "2", "3"}) form.emplace("saga", std::string{"orders\n\n"} + key);
    form.emplace("form_key", ada.form_key());

    skald::test::session holder{db};
    holder.run("BEGIN");
    holder.run("SELECT 1 FROM skald.saga WHERE key = '1' FOR UPDATE");
    std::thread breaks{[&] {
        wait_until_blocked_by(db, holder.pid());
        db.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skald/console-operator' "
            "AND datname = current_database()");
    }};
    auto const page = ada.post_as_stranger("/act", form);
    breaks.join();
    holder.run("ROLLBACK");
    CHECK(says(page, "1 may have been done."));
    CHECK(says(page, "2 not tried."));
    CHECK(says(page, "The audit says what was done."));
}

TEST_CASE("an act whose COMMIT did not wait for the standbys may be gone after a failover, and the page says so")
{
    console_shop s;
    s.order("1");
    application const console{s.given()};
    visitor const ada{console, s.ada};
    skald::test::absent_standby const standby;
    skald::test::impatient_operator const cuts{s.at("orders").db.one("SELECT current_database()")};
    auto const page = ada.post("/act", pausing("1"));
    CHECK(says(page, "may be gone after a failover: give it again"));
    CHECK(says(page, "1 may have been done."));
    CHECK_FALSE(says(page, "It stands in the audit"));
}

TEST_CASE("an act that loses a deadlock was not done, and is not said to have been")
{
    console_shop s;
    for (auto const* key : {"1", "2"}) s.order(key);
    s.at("orders").db.run("CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ "
                          "BEGIN IF NEW.key = '1' THEN RAISE deadlock_detected; END IF; RETURN NEW; END $$;"
                          "CREATE TRIGGER conflict BEFORE INSERT ON skald.control "
                          "FOR EACH ROW EXECUTE FUNCTION conflict()");
    application const console{s.given()};
    fields form{{"verb", "pause"}, {"reason", "a test"}, {"confirm", "2"}};
    for (auto const* key : {"1", "2"}) form.emplace("saga", std::string{"orders\n\n"} + key);
    auto const page = visitor{console, s.ada}.post("/act", form);
    CHECK(says(page, "pause: 1 of 2 done"));
    CHECK(says(page, "deadlock"));
    CHECK_FALSE(says(page, "may have been done"));
    s.at("orders").db.run("DROP TRIGGER conflict ON skald.control");
}

TEST_CASE("a cancel that was asked for before is shown as that, and both stand in the audit")
{
    console_shop s;
    s.order("1");
    application const console{s.given()};
    visitor const ada{console, s.ada};
    fields const link{{"verb", "cancel"}, {"saga", "orders\n\n1"}};
    CHECK_FALSE(says(ada.get("/act", link), "was asked for already"));
    auto form = link;
    form.insert({{"reason", "a test"}, {"confirm", "1"}, {"form_key", ada.form_key()}});
    auto const cancel = [&] { return ada.post_as_stranger("/act", form); };
    CHECK(says(cancel(), "cancel: 1 of 1 done"));
    CHECK(says(ada.get("/act", link), "was asked for already, at 2"));
    CHECK(says(cancel(), "cancel: 1 of 1 done"));
    CHECK(s.at("orders").db.one("SELECT count(*) FROM skald.audit WHERE verb = 'saga cancel'") == "2");
    s.run();
    CHECK(s.saga_status("1") == "compensated");
    CHECK(says(cancel(), "cancel: 0 of 1 done"));
}

TEST_CASE("control characters are kept out of the audit")
{
    console_shop s;
    s.order("1");
    application const console{s.given()};
    visitor const ada{console, s.ada};
    for (auto const* reason : {"two\nlines", "\x1b[31mred", "a\x7f", "a\xc2\x9b"})
        CHECK(says(ada.post("/act", pausing("1", reason)), "without control characters"));
    CHECK(audit(s, "orders").empty());
    CHECK(says(ada.post("/act", pausing("1", "für ada — “so”")), "pause: 1 of 1 done"));
}

TEST_CASE("why a saga's act is not offered is said in words")
{
    console_shop s;
    s.order("1");
    application const console{s.given()};
    auto const page = visitor{console, s.ada}.get("/saga", {{"key", "1"}});
    CHECK(says(page, "It can&#39;t be retried: no step of it is parked."));
    CHECK_FALSE(says(page, "title=\"no step"));
}
