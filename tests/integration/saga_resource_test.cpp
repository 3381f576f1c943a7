// GET and DELETE of /sagas/{key} on a real port and a real database. What other services tell
// is written as they tell it.
#include "core/reasons.hpp"
#include "support/live_entry.hpp"
#include "support/server_setting.hpp"
#include "worker/service_parts.hpp"

#include "examples/order_saga/order_saga.hpp"

#include <skald/service.hpp>
#include <skald/wait_step.hpp>

#include <doctest/doctest.h>

#include <utility>

using namespace skald;
using namespace skald::test;
using http::idempotency;
using nlohmann::json;

namespace {

struct saga_web
{
    saga_web() { REQUIRE(web.ask("POST", "/orders", "Idempotency-Key: k\r\nX-Scope: a\r\n").status == 202); }

    test::raw_answer ask(std::string const& method, std::string const& target, std::string const& fields = {}) const
    {
        return web.ask(method, target, "X-Scope: a\r\n" + fields);
    }
    json view() const { return json::parse(ask("GET", "/sagas/k").body); }

    /// As the step's own service reports it.
    void told(std::string const& step, std::string const& service, std::string const& status,
              std::string const& saga = {}, std::string const& error = {}) const
    {
        json const report{{"scope", "a"},
                          {"key", "k"},
                          {"step", step},
                          {"service", service},
                          {"status", status},
                          {"attempts", 2},
                          {"at", "2026-01-31T12:00:0" + std::to_string(told_++) + ".123456Z"},
                          {"error", error.empty() ? json(nullptr) : json(error)},
                          {"reason", error.empty() ? json(nullptr) : json(error)},
                          {"saga", saga.empty() ? json(nullptr) : json(saga)}};
        web.db.run("SELECT skald.record_progress('[" + report.dump() + "]')");
    }

    std::string commands_issued() const
    {
        return web.db.one("SELECT count(*) FROM skald.audit WHERE verb = 'saga cancel'");
    }

    int mutable told_{};
    live_entry web{{{"POST", "/orders", idempotency::required,
                     [](http::request_context& ctx) {
                         ctx.start(order_saga::place_order, order_saga::order{"o", "ann", "pen", 1, 100});
                         return http::response{202, "", {{"Location", http::saga_path(ctx.key())}}, ""};
                     }}},
                   http::scope_from_header("X-Scope")};
};

struct go_ahead
{
    std::string by;
    NLOHMANN_DEFINE_TYPE_INTRUSIVE(go_ahead, by)
};

class approve final : public wait_step<go_ahead, go_ahead>
{
    std::chrono::milliseconds timeout(go_ahead const&) const override { return std::chrono::hours{1}; }
    outcome arrived(step_context&, go_ahead&, go_ahead const&) const override { return done(); }
    outcome timed_out(step_context&, go_ahead&) const override { return reject("nobody did"); }
};

constexpr pivot<go_ahead> approve_it{"approve", "orders"};
constexpr auto ask_somebody = define("ask-somebody", approve_it);

}  // namespace

TEST_CASE("a saga tells its steps with their attempts and times, and what can be done with it")
{
    saga_web s;
    s.told("create-order", "orders", "completed");
    auto const view = s.view();
    CHECK(view["status"] == "running");
    CHECK(view["steps"][0]["status"] == "completed");
    CHECK(view["steps"][0]["attempts"] == 2);
    CHECK(view["steps"][0]["at"] == "2026-01-31T12:00:00.123Z");
    CHECK(view["steps"][1]["status"] == "pending");
    CHECK(view["links"]["self"]["href"] == "/sagas/k");
    CHECK(view["links"]["end"]["href"] == "/sagas/k?wait=30");
    CHECK(view["links"]["cancel"] == json{{"href", "/sagas/k"}, {"method", "DELETE"}});

    s.told("arrange-shipping", "shipping", "completed");
    CHECK_MESSAGE(!s.view()["links"].contains("cancel"), "behind the pivot there is no way back");
    s.told("confirm-order", "orders", "completed", "completed");
    CHECK(s.view()["links"] == json{{"self", {{"href", "/sagas/k"}}}});
}

TEST_CASE(
    "a customer reads the reason of a no, and of no error its text: not in the saga, its steps or a refused cancel")
{
    auto const sql = std::string{"ERROR: relation \"wallet_secret\" Key (customer)=(bob)"};
    struct row
    {
        std::string step, service, status, saga, error, reason;
    };
    for (auto const& r :
         {row{"charge-payment", "payments", "rejected", "compensating", "no money", "no money"},
          row{"charge-payment", "payments", "rejected", "compensating", core::failed_last_attempt(sql), ""},
          row{"charge-payment", "payments", "retrying", "", sql, ""},
          row{"charge-payment", "payments", "parked", "stuck", sql, ""},
          row{"charge-payment", "payments", "cancelled", "compensating", "eve: " + sql, ""},
          row{"confirm-order", "orders", "parked", "stuck", sql, ""},
          row{"create-order.compensate", "orders", "parked", "stuck", sql, ""}}) {
        CAPTURE(r.status);
        saga_web s;
        s.told(r.step, r.service, r.status, r.saga, r.error);
        auto const shown = s.ask("GET", "/sagas/k");
        auto const refused = s.ask("DELETE", "/sagas/k");
        for (auto const* heard : {&shown.body, &refused.body})
            for (auto const* secret : {"wallet_secret", "bob", "ERROR", "eve"})
                CHECK_MESSAGE(heard->find(secret) == std::string::npos, *heard);
        auto const view = s.view();
        CHECK(view["status"] == (r.saga.empty() ? "running" : r.saga));
        CHECK(view["reason"] == (r.reason.empty() ? json(nullptr) : json(r.reason)));
        CHECK(view["steps"][1].value("reason", "") == r.reason);
    }
}

TEST_CASE("a saga whose times are infinite is shown all the same, and what no client can wait for is 500 and not 503")
{
    saga_web s;
    for (auto const* far : {"infinity", "-infinity"}) {
        s.web.db.run("UPDATE skald.saga SET deadline_at = '" + std::string{far} + "', created_at = '" + far + "'");
        auto const shown = s.ask("GET", "/sagas/k");
        CHECK(shown.status == 200);
        CHECK(json::parse(shown.body)["created_at"] ==
              (far[0] == '-' ? "0001-01-01T00:00:00.000Z" : "9999-12-31T23:59:59.999Z"));
    }
    auto const instant = s.web.db.one("SELECT pg_get_functiondef('skald.instant'::regproc)");
    s.web.db.run(
        "CREATE OR REPLACE FUNCTION skald.instant(at timestamptz) RETURNS text LANGUAGE sql AS $$ SELECT 'never' $$");
    auto const broken = s.ask("GET", "/sagas/k");
    CHECK(broken.status == 500);
    CHECK(problem_of(broken) == "about:blank");
    CHECK(s.ask("DELETE", "/sagas/k").status == 500);
    s.web.db.run(instant);
    s.web.db.run("ALTER FUNCTION skald.known_steps RENAME TO lost_steps");
    CHECK_MESSAGE(s.ask("GET", "/sagas/k").status == 503, "what is missing may come back");
    s.web.db.run("ALTER FUNCTION skald.lost_steps RENAME TO known_steps");
}

TEST_CASE("?wait=N answers when the saga ends, and without a lane meanwhile")
{
    saga_web s;
    std::vector<test::raw_client> waiters;
    for (auto const* wait : {"?wait=25", "?a=b&wait=25", ""})
        for (int i = 0; i < 4; ++i) {
            waiters.push_back(s.web.connect());
            waiters.back().send(
                live_entry::text("GET", std::string{"/sagas/k"} + wait,
                                 std::string{"X-Scope: a\r\n"} + (*wait == '\0' ? "Prefer: wait=25\r\n" : "")));
        }
    for (int i = 0; i < 8; ++i) CHECK(s.view()["status"] == "running");  // twelve wait, and there are four lanes
    s.told("confirm-order", "orders", "completed", "completed");
    for (std::size_t i = 0; i < waiters.size(); ++i) {
        auto const heard = waiters[i].read_answer();
        CHECK(heard.status == 200);
        CHECK(json::parse(heard.body)["status"] == "completed");
        CHECK(heard.value_of("Preference-Applied") == (i < 8 ? "" : "wait=25"));
    }
    CHECK_MESSAGE(json::parse(s.ask("GET", "/sagas/k?wait=25").body)["status"] == "completed",
                  "an ended one is told at once");
}

TEST_CASE("a wait that ends before the saga does answers how it stands, and one that is no number is refused")
{
    saga_web s;
    auto const heard = s.ask("GET", "/sagas/k?wait=1");
    CHECK(heard.status == 200);
    CHECK(json::parse(heard.body)["status"] == "running");
    CHECK(s.ask("GET", "/sagas/k?wait=0").status == 200);
    for (std::string const wait : {"", "-1", "1.5", "10s", "%31x"}) {
        auto const refused = s.ask("GET", "/sagas/k?wait=" + wait);
        CHECK_MESSAGE(refused.status == 400, wait);
        CHECK(problem_of(refused) == "wait");
    }
    CHECK(s.ask("GET", "/sagas/nobody?wait=25").status == 404);
}

TEST_CASE("DELETE cancels a saga, and again changes nothing, until the end and after it")
{
    saga_web s;
    auto const first = s.ask("DELETE", "/sagas/k");
    CHECK(first.status == 202);
    CHECK(json::parse(first.body)["key"] == "k");
    CHECK(s.ask("DELETE", "/sagas/k").status == 202);
    CHECK(s.commands_issued() == "1");
    CHECK(s.web.db.rows("SELECT DISTINCT destination FROM skald.outbox WHERE type = 'skald.control' ORDER BY 1") ==
          "payments\nshipping");
    CHECK(s.web.db.one("SELECT actor LIKE 'a client over HTTP as %' FROM skald.audit") == "t");
    CHECK(s.web.db.one("SELECT action FROM skald.control WHERE (scope, key) = ('a', 'k')") == "cancel");

    s.told("charge-payment", "payments", "cancelled", "compensating");
    CHECK(s.ask("DELETE", "/sagas/k").status == 202);
    s.told("create-order.compensate", "orders", "completed", "compensated");
    CHECK(s.ask("DELETE", "/sagas/k").status == 200);
    CHECK(s.commands_issued() == "1");
}

TEST_CASE("DELETE is no 202 while its COMMIT, or that of an earlier one, did not wait for the standbys")
{
    saga_web const s;
    absent_standby standby;
    for (auto const* which : {"the one that cancels", "the next one"}) {
        CAPTURE(which);
        impatient_operator const cuts{s.web.db.one("SELECT current_database()")};
        auto const answer = s.ask("DELETE", "/sagas/k");
        CHECK(answer.status == 503);
        CHECK(answer.body.find("/problems/outcome-unknown\"") != std::string::npos);
    }
    standby.reset();
    CHECK(s.ask("DELETE", "/sagas/k").status == 202);
    CHECK(s.commands_issued() == "1");
}

TEST_CASE("DELETE of a saga of which a message was dropped is accepted, and the log says why it does not end by that")
{
    saga_web const s;
    s.web.db.run("SELECT skald.drop_messages(NULL, 'k:create-order', 'gone', 'eve', true)");
    auto const answer = s.ask("DELETE", "/sagas/k");
    CHECK(answer.status == 202);
    CHECK(json::parse(answer.body)["status"] == "stuck");
    CHECK_MESSAGE(s.web.log.has(R"(saga.cancel_left key=k left="nothing of create-order is left to retry)"),
                  s.web.log.lines());
}

TEST_CASE("DELETE says in the log why it does not end its saga also where its COMMIT did not wait for the standbys")
{
    saga_web const s;
    s.web.db.run("SELECT skald.drop_messages(NULL, 'k:create-order', 'gone', 'eve', true)");
    absent_standby const standby;
    impatient_operator const cuts{s.web.db.one("SELECT current_database()")};
    CHECK(s.ask("DELETE", "/sagas/k").status == 503);
    CHECK_MESSAGE(s.web.log.has("saga.cancel_left key=k"), s.web.log.lines());
}

TEST_CASE("DELETE after the pivot, of a saga that compensates already, or that ended, is 409 with the reason")
{
    struct row
    {
        std::string step, status, saga, why;
    };
    for (auto const& r : {row{"arrange-shipping", "completed", "", "past the pivot"},
                          row{"charge-payment", "rejected", "compensating", "is compensating already"},
                          row{"confirm-order", "completed", "completed", "has ended"},
                          row{"create-order.compensate", "completed", "compensated", "has ended"}}) {
        saga_web s;
        s.told(r.step, "shipping", r.status, r.saga);
        auto const refused = s.ask("DELETE", "/sagas/k");
        CHECK(refused.status == 409);
        CHECK(problem_of(refused) == "not-cancellable");
        CHECK_MESSAGE(refused.body.find(r.why) != std::string::npos, refused.body);
        CHECK(s.commands_issued() == "0");
    }
}

TEST_CASE("a cancel that came too late is 409 from then on, although it was given")
{
    saga_web s;
    CHECK(s.ask("DELETE", "/sagas/k").status == 202);
    s.told("arrange-shipping", "shipping", "completed");
    CHECK(s.ask("DELETE", "/sagas/k").status == 409);
    s.told("confirm-order", "orders", "completed", "completed");
    CHECK(s.ask("DELETE", "/sagas/k").status == 409);
}

TEST_CASE("another scope neither sees nor cancels a saga, nor does it learn that there is one")
{
    saga_web s;
    for (auto const* method : {"GET", "DELETE"}) {
        auto const other = s.web.ask(method, "/sagas/k", "X-Scope: b\r\n");
        auto const nobody = s.web.ask(method, "/sagas/nobody", "X-Scope: b\r\n");
        CHECK(other.status == 404);
        CHECK(other.body == nobody.body);
        CHECK(s.web.ask(method, "/sagas/k").status == 400);
    }
    CHECK(s.ask("DELETE", "/sagas/caf%C3%A9").status == 404);
    CHECK(s.commands_issued() == "0");
}

TEST_CASE("a signal and a cancellation wake what waits, and a refused one does not")
{
    saga_web const s;
    auto const signal = [&](std::string const& step) {
        return s.web.ask("POST", "/sagas/k/signals/" + step, "X-Scope: a\r\nIdempotency-Key: for-" + step + "\r\n",
                         "{}");
    };
    CHECK(signal("none-such").status == 404);
    CHECK(s.web.woken == 0);
    CHECK(signal("charge-payment").status == 202);
    CHECK(s.web.woken == 1);
    CHECK(s.ask("DELETE", "/sagas/k").status == 202);
    CHECK(s.web.woken == 2);
}

TEST_CASE("a signal that its step here can't read is 400, and nothing of it is kept")
{
    runtime::registry steps;
    service orders{"orders"};
    orders.host(ask_somebody, approve_it, approve{});
    for (auto& one : orders.parts().steps) steps.add(one.definition, one.name, std::move(one.hosted));
    live_entry web{{{"POST", "/orders", idempotency::required,
                     [](http::request_context& ctx) {
                         ctx.start(ask_somebody, go_ahead{});
                         return http::response{202, "", {}, ""};
                     }}},
                   {},
                   {},
                   &steps};
    REQUIRE(web.ask("POST", "/orders", "Idempotency-Key: k\r\n").status == 202);
    auto const signal = [&](std::string const& body) {
        return web.ask("POST", "/sagas/k/signals/approve", "Idempotency-Key: s\r\n", body);
    };
    auto const refused = signal(R"({"by": 7})");
    CHECK(refused.status == 400);
    CHECK_MESSAGE(refused.body.find("by is a number") != std::string::npos, refused.body);
    CHECK(web.db.one("SELECT count(*) FROM skald.signal") == "0");
    CHECK(signal(R"({"by": "eve"})").status == 202);
}

TEST_CASE("a signal that came before its saga is not there yet, and the same request is taken once the saga is")
{
    saga_web const s;
    auto const signal = [&] {
        return s.web.ask("POST", "/sagas/late/signals/charge-payment", "X-Scope: a\r\nIdempotency-Key: event-7\r\n",
                         "{}");
    };
    CHECK(signal().status == 404);
    REQUIRE(s.web.ask("POST", "/orders", "Idempotency-Key: late\r\nX-Scope: a\r\n").status == 202);
    CHECK(signal().status == 202);
    CHECK(signal().status == 202);  // replayed
    CHECK(s.web.woken == 1);
}
