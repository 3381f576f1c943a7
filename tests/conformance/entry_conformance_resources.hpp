// What the entry answers beyond the draft: replays to the byte, routes, scopes, sagas, probes, and while it is closed.
#pragma once

#include "support/held_handler.hpp"
#include "support/live_entry.hpp"

#include "examples/order_saga/order_saga.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

namespace skald::test {

/// Starts a saga whose first step another service runs.
inline http::response start_order(http::request_context& ctx)
{
    ctx.start(order_saga::place_order, order_saga::order{"o", "ann", "pen", 1, 100});
    return {202, "", {{"Location", http::saga_path(ctx.key())}}, ""};
}

TEST_CASE_TEMPLATE_DEFINE("a replay is the first response byte for byte, with all its headers", Server, entry_replays)
{
    std::string const bytes{"\xff\x00 no text \r\n", 14};
    live_entry_on<Server> web{
        {{"POST", "/links", http::idempotency::required, [&](http::request_context&) {
              return http::response{201, "application/octet-stream", {{"Link", "</a>"}, {"Link", "</b>"}}, bytes};
          }}}};
    auto const first = web.ask("POST", "/links", "Idempotency-Key: k\r\n");
    auto const again = web.ask("POST", "/links", "Idempotency-Key: k\r\n");
    CHECK(first.value_of("Idempotency-Replayed").empty());
    CHECK(again.value_of("Idempotency-Replayed") == "true");
    for (auto const& heard : {first, again}) {
        CHECK(heard.status == 201);
        CHECK(heard.body == bytes);
        CHECK(heard.value_of("Content-Type") == "application/octet-stream");
        // In one line or in two, which are the same (RFC 9110, 5.3).
        CHECK(heard.value_of("Link").starts_with("</a>"));
        CHECK((heard.has("Link: </a>, </b>") || heard.has("Link: </b>")));
    }
}

TEST_CASE_TEMPLATE_DEFINE("a route says what an Idempotency-Key means to it", Server, entry_kinds_of_routes)
{
    using http::idempotency;
    live_entry_on<Server> web{{{"PUT", "/once/{id}", idempotency::required, leaving("once")},
                               {"POST", "/maybe", idempotency::optional, leaving("maybe")},
                               {"GET", "/each", idempotency::off, leaving("each")}}};
    std::string const key = "Idempotency-Key: k\r\n";
    CHECK(problem_of(web.ask("PUT", "/once/1")) == "idempotency-key");
    for (int i = 0; i < 2; ++i) {
        CHECK(web.ask("PUT", "/once/1", key).status == 201);
        CHECK(web.ask("POST", "/maybe", "Idempotency-Key: m\r\n").status == 201);
        CHECK(web.ask("POST", "/maybe").status == 201);
        CHECK(web.ask("GET", "/each", key).status == 201);
    }
    CHECK(web.ask("PUT", "/once/2", key).status == 422);
    CHECK(web.effects() == "each\neach\nmaybe\nmaybe\nmaybe\nonce");
}

TEST_CASE_TEMPLATE_DEFINE("what no route is for is refused, and probes are answered", Server, entry_paths)
{
    live_entry_on<Server> web{{{"POST", "/orders", http::idempotency::required, leaving("x")}}};
    CHECK(web.ask("POST", "/nothing", "Idempotency-Key: k\r\n").status == 404);
    auto const other_method = web.ask("PUT", "/orders", "Idempotency-Key: k\r\n");
    CHECK(other_method.status == 405);
    CHECK(other_method.value_of("Allow") == "POST");
    for (auto const* malformed : {"/orders%FF", "/orders%00", "/orders%4"})
        CHECK(web.ask("POST", malformed, "Idempotency-Key: k\r\n").status == 400);
    CHECK(web.ask("GET", "/livez").body == "alive\n");
    CHECK(web.ask("GET", "/readyz").body == "ready\nbroker: connected\n");
    CHECK(web.effects().empty());
}

TEST_CASE_TEMPLATE_DEFINE("whose request it is decides first, and once for each request", Server, entry_scopes)
{
    std::atomic<int> asked{};
    live_entry_on<Server> web{{{"POST", "/orders", http::idempotency::required, leaving("x")}},
                              [&](http::request const& r) -> std::string {
                                  ++asked;
                                  if (r.header("X-Api-Key") == "broken") throw std::runtime_error{"secret"};
                                  if (r.header("X-Api-Key").empty()) throw http::unauthorized{"who is it?", "ApiKey"};
                                  return std::string{r.header("X-Api-Key")};
                              }};
    auto const stranger = web.ask("POST", "/orders", "Idempotency-Key: k\r\n");
    CHECK(stranger.status == 401);
    CHECK(stranger.value_of("WWW-Authenticate") == "ApiKey");
    CHECK(problem_of(web.ask("POST", "/orders", "X-Api-Key: " + std::string(65, 'a') + "\r\nIdempotency-Key: k\r\n")) ==
          "scope");
    auto const broken = web.ask("POST", "/orders", "X-Api-Key: broken\r\nIdempotency-Key: k\r\n");
    CHECK(broken.status == 500);
    CHECK(problem_of(broken) == "about:blank");
    CHECK(broken.body.find("secret") == std::string::npos);
    CHECK(web.effects().empty());
    asked = 0;
    for (auto const* tenant : {"ann", "bob", "ann"})
        CHECK(web.ask("POST", "/orders", "X-Api-Key: " + std::string{tenant} + "\r\nIdempotency-Key: k\r\n").status ==
              201);
    CHECK(asked == 3);
    CHECK(web.effects() == "x\nx");
}

TEST_CASE_TEMPLATE_DEFINE("a saga is shown to its own client, and cancelled", Server, entry_sagas)
{
    live_entry_on<Server> web{{{"POST", "/orders", http::idempotency::required, start_order}},
                              http::scope_from_header("X-Scope")};
    auto const started = web.ask("POST", "/orders", "Idempotency-Key: a/b\r\nX-Scope: s\r\n");
    REQUIRE(started.status == 202);
    auto const at = started.value_of("Location");
    CHECK(at == "/sagas/a%2Fb");
    auto const shown = web.ask("GET", at, "X-Scope: s\r\n");
    CHECK(shown.status == 200);
    CHECK(nlohmann::json::parse(shown.body)["status"] == "running");
    CHECK(web.ask("GET", at, "X-Scope: other\r\n").status == 404);
    CHECK(web.ask("GET", at).status == 400);
    CHECK(problem_of(web.ask("GET", at + "?wait=soon", "X-Scope: s\r\n")) == "wait");
    CHECK(web.ask("GET", at + "?wait=1", "X-Scope: s\r\n").status == 200);
    for (int i = 0; i < 2; ++i) CHECK(web.ask("DELETE", at, "X-Scope: s\r\n").status == 202);
    CHECK(web.db.one("SELECT action FROM skald.control WHERE (scope, key) = ('s', 'a/b')") == "cancel");
}

TEST_CASE_TEMPLATE_DEFINE("a duplicate that prefers to wait gets the first request's response", Server, entry_waits)
{
    held_handler held;
    live_entry_on<Server> web{
        {{"POST", "/held", http::idempotency::required, [&](http::request_context& ctx) { return held(ctx); }}}};
    std::string const key = "Idempotency-Key: k\r\n";
    auto first = web.connect();
    first.send(web.text("POST", "/held", key));
    held.wait_until_inside();
    CHECK(web.ask("POST", "/held", key).status == 409);
    CHECK(web.ask("POST", "/held", key, "other").status == 422);
    auto waiting =
        std::async(std::launch::async, [&] { return web.ask("POST", "/held", key + "Prefer: wait=25\r\n"); });
    held.let_out();
    auto const heard = waiting.get();
    CHECK(heard.status == 201);
    CHECK(heard.value_of("Idempotency-Replayed") == "true");
    CHECK(first.read_answer().status == 201);
    CHECK(held.runs == 1);
}

TEST_CASE_TEMPLATE_DEFINE("more requests at a time than there are connections all get their response", Server,
                          entry_many_at_a_time)
{
    config few;
    few.http_lanes = 2;
    live_entry_on<Server> web{{{"POST", "/orders", http::idempotency::required, leaving("x")}}, {}, few};
    std::vector<std::future<int>> asked;
    for (int i = 0; i < 16; ++i)
        asked.push_back(std::async(std::launch::async, [&web, i] {
            return web.ask("POST", "/orders", "Idempotency-Key: k" + std::to_string(i % 8) + "\r\n").status;
        }));
    for (auto& one : asked) {
        auto const status = one.get();
        CHECK_MESSAGE((status == 201 || status == 409), status);
    }
    CHECK(web.db.one("SELECT count(*) FROM effect") == "8");
}

TEST_CASE_TEMPLATE_DEFINE("an entry that is closed accepts nothing, and is alive", Server, entry_closed)
{
    live_entry_on<Server> web{{{"POST", "/orders", http::idempotency::required, leaving("x")}}};
    CHECK(web.ask("POST", "/orders", "Idempotency-Key: k\r\n").status == 201);
    REQUIRE(web.entry.parts().close(std::chrono::steady_clock::now() + std::chrono::seconds{60}));
    auto const refused = web.ask("POST", "/orders", "Idempotency-Key: other\r\n");
    CHECK(refused.status == 503);
    CHECK(problem_of(refused) == "not-ready");
    CHECK(!refused.value_of("Retry-After").empty());
    CHECK(web.ask("GET", "/readyz").status == 503);
    CHECK(web.ask("GET", "/livez").status == 200);
    CHECK_MESSAGE(web.ask("POST", "/orders", "Idempotency-Key: k\r\n").status == 201, "it is known, and final");
    CHECK(web.effects() == "x");
}

}  // namespace skald::test
