// What an operator says of a call that is in doubt.
#include "console_shop.hpp"

#include "support/session.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <thread>

using skald::console::application;
using skald::test::console_shop;
using skald::test::fields;
using skald::test::says;
using skald::test::visitor;

namespace {

/// Order 1, whose charge at payments is a call of a gateway that is in doubt.
void put_in_doubt(console_shop& s)
{
    s.order("1");
    s.at("payments")
        .db.run("INSERT INTO skald.idempotency (scope, key, step, home, status) VALUES ('', '1', 'charge-payment', "
                "'orders', 'unknown');"
                "INSERT INTO skald.started (scope, key, step, kind, dependency, due_at, lease, in_doubt, calls, looks, "
                "message_id, type, content_type, body, headers) VALUES ('', '1', 'charge-payment', 'call', 'gateway', "
                "now() + '1 h', '15 s', true, 1, 3, 'm', 't', 'c', '', '{}')");
}

fields saying(std::string const& what, std::string const& result = "")
{
    return {{"service", "payments"},     {"scope", ""},   {"key", "1"},
            {"step", "charge-payment"},  {"what", what},  {"result", result},
            {"reason", "on their list"}, {"confirm", "1"}};
}

std::string answer_kept(console_shop& s)
{
    return s.at("payments").db.one("SELECT coalesce(answer::text, '') FROM skald.started");
}

}  // namespace

TEST_CASE("an operator says that a call has happened, with its result, and the audit has it")
{
    console_shop s;
    put_in_doubt(s);
    application const console{s.given()};
    visitor const ada{console, s.ada};
    CHECK(says(ada.get("/saga", {{"key", "1"}}), "/resolve?service=payments"));
    auto const page = ada.get("/resolve", {{"service", "payments"}, {"key", "1"}, {"step", "charge-payment"}});
    CHECK(page.status == 200);
    CHECK(says(page, "What has the call done?"));
    CHECK(says(page, "asked 3 times"));
    auto const done = ada.post("/resolve", saying("happened", R"({"charge": "ch_7"})"));
    CAPTURE(done.body);
    CHECK(done.status == 200);
    CHECK(says(done, "payments goes on with it"));
    CHECK(answer_kept(s) == R"({"happened": {"charge": "ch_7"}})");
    CHECK(s.at("payments")
              .db.rows("SELECT actor LIKE 'ada as %', verb, key, detail->>'step', detail->>'reason' FROM "
                       "skald.audit") == "t|saga resolve|1|charge-payment|on their list");
    // Once is enough.
    CHECK(ada.post("/resolve", saying("did-not-happen")).status == 409);
    CHECK_FALSE(says(ada.get("/saga", {{"key", "1"}}), "/resolve?"));
}

TEST_CASE("an operator says that a call has not happened, but not while a process has it")
{
    console_shop s;
    put_in_doubt(s);
    application const console{s.given()};
    visitor const ada{console, s.ada};
    s.at("payments").db.run("UPDATE skald.started SET owner = 'a process', fence = 1");
    auto const refused = ada.post("/resolve", saying("did-not-happen"));
    CHECK(refused.status == 409);
    CHECK(says(refused, "may yet happen"));
    CHECK(answer_kept(s).empty());
    s.at("payments").db.run("UPDATE skald.started SET owner = NULL");
    CHECK(says(ada.post("/resolve", saying("did-not-happen")), "It did not happen"));
    CHECK(answer_kept(s) == R"({"did_not_happen": "on their list"})");
}

TEST_CASE("what is said of a call has an answer in JSON or none, a reason, and the key typed")
{
    console_shop s;
    put_in_doubt(s);
    application const console{s.given()};
    visitor const ada{console, s.ada};
    auto const refused = [&](fields form, std::string const& why) {
        auto const page = ada.post("/resolve", std::move(form));
        CAPTURE(page.body);
        CHECK(page.status == 422);
        CHECK(says(page, why));
    };
    refused(saying("perhaps"), "Say whether it happened.");
    refused(saying("happened"), "Say what the other side answered");
    refused(saying("happened", "{not JSON"), "The answer is JSON");
    refused(saying("did-not-happen", "{}"), "What did not happen has no answer.");
    auto form = saying("did-not-happen");
    form.find("reason")->second = " ";
    refused(form, "Give a reason");
    form = saying("did-not-happen");
    form.find("confirm")->second = "2";
    refused(form, "Type exactly");
    CHECK(answer_kept(s).empty());
}

TEST_CASE("nothing is said of a call by a viewer, where the console only reads, or of what is not in doubt")
{
    console_shop s;
    put_in_doubt(s);
    fields const named{{"service", "payments"}, {"key", "1"}, {"step", "charge-payment"}};
    application const console{s.given()};
    visitor const ada{console, s.ada}, bob{console, s.bob};
    CHECK(bob.get("/resolve", named).status == 403);
    CHECK_FALSE(says(bob.get("/saga", {{"key", "1"}}), "/resolve?"));
    auto reading = s.given();
    reading.operating.clear();
    application const only_reads{reading};
    CHECK(visitor{only_reads, s.ada}.get("/resolve", named).status == 403);

    CHECK(ada.get("/resolve", {{"service", "payments"}, {"key", "2"}, {"step", "charge-payment"}}).status == 404);
    CHECK(ada.get("/resolve", {{"service", "nobody"}, {"key", "1"}, {"step", "charge-payment"}}).status == 404);
    CHECK(ada.get("/resolve").status == 400);
    CHECK(ada.post_as_stranger("/resolve", saying("did-not-happen")).status == 403);
    s.at("payments").db.run("UPDATE skald.started SET in_doubt = false");
    CHECK(says(ada.get("/resolve", named), "Nothing of charge-payment of saga 1 is in doubt."));
    s.at("payments").db.run("UPDATE skald.started SET kind = 'wait'");
    CHECK(says(ada.get("/resolve", named), "waits for a signal, and makes no call."));
}

TEST_CASE("a result that does not fit its step is said to be that, and may be said again")
{
    console_shop s;
    put_in_doubt(s);
    application const console{s.given()};
    visitor const ada{console, s.ada};
    // As the process that records it leaves it.
    std::jthread const process{[&] {
        skald::test::session of_a_process{s.at("payments").db};
        (void)skald::testing::wait_until([&] {
            return of_a_process.run(
                       "UPDATE skald.started SET tries = tries + 1, fence = fence + 1, error = 'the result does "
                       "not fit' WHERE answer IS NOT NULL RETURNING 1") == "1";
        });
    }};
    auto const page = ada.post("/resolve", saying("happened", R"({"charge": 7})"));
    CAPTURE(page.body);
    CHECK(page.status == 422);
    CHECK(says(page, "the result does not fit"));
    CHECK(says(page, "say it again"));
}
