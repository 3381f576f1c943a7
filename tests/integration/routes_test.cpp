// Routes of every method and kind over a real port and a real database: what an Idempotency-Key
// means to each, and who asks.
#include "support/guarded.hpp"
#include "support/live_entry.hpp"

#include "examples/order_saga/order_saga.hpp"

#include <skald/errors.hpp>

#include <doctest/doctest.h>

#include <atomic>

using namespace skald;
using namespace skald::test;
using http::idempotency;

namespace {

http::response start_saga(http::request_context& ctx)
{
    ctx.start(order_saga::place_order, order_saga::order{"o", "ann", "pen", 1, 100});
    return http::json_response(202, {{"key", ctx.key()}});
}

}  // namespace

TEST_CASE("a route has its method, and parameters of its path, decoded")
{
    live_entry web{{{"PUT", "/carts/{cart}/items/{sku}", idempotency::required, [](http::request_context& ctx) {
                         ctx.sql("INSERT INTO effect VALUES ($1)", ctx.parameter("cart") + '|' + ctx.parameter("sku"));
                         return http::response{204, "", {}, ""};
                     }}}};
    CHECK(web.ask("PUT", "/carts/7/items/a%2Fb", "Idempotency-Key: k\r\n").status == 204);
    CHECK(web.ask("PUT", "/carts/7/items/a%2Fb", "Idempotency-Key: k\r\n").value_of("Idempotency-Replayed") == "true");
    CHECK(web.effects() == "7|a/b");
    CHECK(web.ask("PUT", "/carts/8/items/a%2Fb", "Idempotency-Key: k\r\n").status == 422);
    CHECK(web.ask("PUT", "/carts/7/items/a%2Fb").status == 400);
    auto const other = web.ask("POST", "/carts/7/items/b");
    CHECK(other.status == 405);
    CHECK(other.value_of("Allow") == "PUT");
    CHECK(web.ask("PUT", "/carts/7/items/").status == 404);
}

TEST_CASE("what a query or a path has is a value of its type, or a 400 that says why")
{
    live_entry web{{{"GET", "/rooms/{floor}", idempotency::off, [](http::request_context& ctx) {
                         auto const city = ctx.query("city").value_or("anywhere");
                         return http::json_response(200, {{"city", city},
                                                          {"nights", ctx.query<int>("nights").value_or(1)},
                                                          {"floor", ctx.parameter<int>("floor")}});
                     }}}};
    CHECK(web.ask("GET", "/rooms/2?city=New+York&nights=3").body == R"({"city":"New York","floor":2,"nights":3})");
    CHECK(web.ask("GET", "/rooms/2").body == R"({"city":"anywhere","floor":2,"nights":1})");
    for (auto const* bad : {"/rooms/x", "/rooms/%ff", "/rooms/2?nights=x", "/rooms/2?nights=",
                            "/rooms/2?nights=99999999999", "/rooms/2?city=%ff", "/rooms/2?city=a&city=b"})
        CHECK_MESSAGE(web.ask("GET", bad).status == 400, bad);
    CHECK(web.ask("GET", "/rooms/2?nights=x").body.find("the query's nights is no whole number") != std::string::npos);
}

TEST_CASE("an answer is replayed from memory unless a setting gives it no room or no time")
{
    auto const asked_twice = [](config const& settings) {
        live_entry web{{{"POST", "/x", idempotency::required, leaving("x")}}, {}, settings};
        web.ask("POST", "/x", "Idempotency-Key: k\r\n");
        web.db.run("TRUNCATE skald.idempotency, skald.response");  // so that only memory knows
        return web.ask("POST", "/x", "Idempotency-Key: k\r\n").value_of("Idempotency-Replayed");
    };
    CHECK(asked_twice({}) == "true");
    config changed;
    changed.http.kept_bytes_max = 0;
    CHECK(asked_twice(changed).empty());
    changed = {};
    changed.http.kept_time = std::chrono::milliseconds{0};
    CHECK(asked_twice(changed).empty());
}

TEST_CASE("a retry is the same request whatever the route's pattern calls its parts, and whichever route takes it")
{
    live_entry web{{{"POST", "/carts/{id}", idempotency::required, leaving("x")}}};
    auto const first = web.ask("POST", "/carts/7", "Idempotency-Key: k\r\n");
    for (auto const* renamed : {"/carts/{cart}", "/carts/7", "/{all}/{id}"}) {
        entry_detail::known_requests next;
        postgres::postgres_store store{{.url = web.db.url()}};
        entry_detail::request_guard guard{"orders", store, next, web.backlog, web.out, web.log};
        http::request again;
        again.method = "POST";
        again.target = again.path = "/carts/7";
        again.headers = {{"Idempotency-Key", "k"}};
        auto const heard = respond_by(guard, next, again, {"POST", renamed, idempotency::required, leaving("y")});
        CHECK(heard.status == 201);
        CHECK(heard.body == first.body);
    }
    CHECK(web.effects() == "x");
}

TEST_CASE("a path that is no text is malformed, whatever its route")
{
    live_entry web{{{"POST", "/carts/{id}", idempotency::required, leaving("x")}}};
    for (auto const* path : {"/carts/%FF", "/carts/a%C3", "/carts/%ED%A0%80", "/sagas/%FF", "/%FF", "/livez%80"}) {
        CAPTURE(path);
        auto client = web.connect();
        auto const refused = client.ask(live_entry::text("POST", path, "Idempotency-Key: k\r\n"));
        CHECK(refused.status == 400);
        CHECK(refused.value_of("Content-Type") == "application/problem+json");
    }
    CHECK(web.effects() == "");
    CHECK(web.ask("POST", "/carts/caf%C3%A9", "Idempotency-Key: k\r\n").status == 201);
}

TEST_CASE("two methods of one path are two routes, and one key is one request of one of them")
{
    live_entry web{{{"POST", "/x", idempotency::required, leaving("post")},
                    {"PATCH", "/x", idempotency::required, leaving("patch")}}};
    CHECK(web.ask("PATCH", "/x", "Idempotency-Key: k\r\n").status == 201);
    auto const other = web.ask("POST", "/x", "Idempotency-Key: k\r\n");
    CHECK(other.status == 422);
    CHECK(problem_of(other) == "key-reused");
    CHECK(web.effects() == "patch");
}

TEST_CASE("optional: with a key a request is done once, without one each time, and a malformed one is no missing one")
{
    live_entry web{
        {{"POST", "/x", idempotency::optional, leaving("x")}, {"POST", "/sagas", idempotency::optional, start_saga}}};
    CHECK(web.ask("POST", "/x", "Idempotency-Key: k\r\n").status == 201);
    CHECK(web.ask("POST", "/x", "Idempotency-Key: \"k\"\r\n").value_of("Idempotency-Replayed") == "true");
    CHECK(web.effects() == "x");
    auto const one = web.ask("POST", "/x");
    auto const two = web.ask("POST", "/x");
    CHECK(one.status == 201);
    CHECK(two.value_of("Idempotency-Replayed").empty());
    CHECK(one.body != two.body);
    CHECK(web.effects() == "x\nx\nx");
    for (std::string const key : {"", "a b", "\"open"})
        CHECK_MESSAGE(problem_of(web.ask("POST", "/x", "Idempotency-Key: " + key + "\r\n")) == "idempotency-key", key);
    CHECK(web.effects() == "x\nx\nx");

    auto const started = web.ask("POST", "/sagas");
    CHECK(started.status == 202);
    CHECK(web.ask("GET", "/sagas/" + nlohmann::json::parse(started.body)["key"].get<std::string>()).status == 200);
}

TEST_CASE(
    "off: the key is not looked at, what the handler did is committed before the client hears, nothing is remembered")
{
    live_entry web{{{"POST", "/x", idempotency::off, leaving("x")},
                    {"GET", "/effects", idempotency::off,
                     [](http::request_context& ctx) {
                         return http::response{200,
                                               "text/plain",
                                               {{"X-Own", "kept"}},
                                               ctx.sql("SELECT count(*) FROM effect")[0][0].c_str()};
                     }},
                    {"POST", "/tell", idempotency::off, [](http::request_context& ctx) {
                         ctx.publish("elsewhere", "told", {{"n", 1}});
                         return http::response{204, "", {}, ""};
                     }}}};
    for (std::string const key : {"k", "k", "", "\"open"})
        CHECK(web.ask("POST", "/x", "Idempotency-Key: " + key + "\r\n").status == 201);
    CHECK(web.effects() == "x\nx\nx\nx");
    CHECK(nlohmann::json::parse(web.ask("POST", "/x").body)["key"] == "");
    auto const read = web.ask("GET", "/effects");
    CHECK(read.body == "5");
    CHECK(read.value_of("X-Own") == "kept");
    CHECK(web.ask("POST", "/tell").status == 204);
    CHECK(web.ask("POST", "/tell").status == 204);
    CHECK_MESSAGE(web.db.one("SELECT count(DISTINCT idempotency_key) FROM skald.outbox") == "2",
                  "two messages, two keys");
    CHECK(web.db.one("SELECT count(*) FROM skald.idempotency") == "0");
    CHECK(web.db.one("SELECT count(*) FROM skald.response") == "0");
}

TEST_CASE("off: a 5xx, an exception, a swallowed SQL error and a saga leave nothing, and are told")
{
    auto const doing = [](std::string const& sql, int status) {
        return [sql, status](http::request_context& ctx) -> http::response {
            ctx.sql("INSERT INTO effect VALUES ('x')");
            try {
                if (!sql.empty()) ctx.tx().exec(sql);
            }
            catch (std::exception const&) {
            }
            return {status, "", {}, ""};
        };
    };
    live_entry web{{{"POST", "/503", idempotency::off, doing("", 503)},
                    {"POST", "/swallowed", idempotency::off, doing("SELECT 1/0", 200)},
                    {"POST", "/thrown", idempotency::off,
                     [](http::request_context&) -> http::response { throw std::runtime_error{"password=hidden"}; }},
                    {"POST", "/body", idempotency::off,
                     [](http::request_context& ctx) -> http::response {
                         return {200, "", {}, ctx.json<nlohmann::json>().dump()};
                     }},
                    {"POST", "/saga", idempotency::off, start_saga},
                    {"POST", "/ended", idempotency::off, doing("ROLLBACK", 200)}}};
    CHECK(web.ask("POST", "/503").status == 503);
    CHECK(web.ask("POST", "/swallowed").status == 500);
    CHECK(web.ask("POST", "/thrown").body.find("hidden") == std::string::npos);
    CHECK(problem_of(web.ask("POST", "/body", {}, "{")) == "body");
    CHECK(web.ask("POST", "/saga").status == 500);
    CHECK(web.ask("POST", "/ended").status == 500);
    CHECK(web.effects() == "");
    CHECK(web.db.one("SELECT count(*) FROM skald.saga") == "0");
}

TEST_CASE("a service is ready while it can take a request, and tells the broker's state beside it")
{
    live_entry web{{{"POST", "/x", idempotency::required, leaving("x")}}};
    CHECK(web.ask("GET", "/readyz").body == "ready\nbroker: connected\n");
    web.transport.go_down();
    CHECK(web.ask("POST", "/x", "Idempotency-Key: k\r\n").status == 201);
    auto const without_broker = web.ask("GET", "/readyz");
    CHECK(without_broker.status == 200);
    CHECK(without_broker.body == "ready\nbroker: away\n");
    web.transport.come_back();
    CHECK(web.ask("GET", "/readyz").body == "ready\nbroker: connected\n");
}

TEST_CASE("a bearer token says whose request it is, and without one that is known there is only a 401")
{
    live_entry web{{{"POST", "/x", idempotency::required, leaving("x")}},
                   http::scope_from_bearer({{"alpha-1", "a"}, {"alpha-2", "a"}, {"beta==", "b"}})};
    auto const ask = [&](std::string const& fields) {
        return web.ask("POST", "/x", "Idempotency-Key: k\r\n" + fields);
    };
    CHECK(ask("Authorization: Bearer alpha-1\r\n").status == 201);
    CHECK(ask("authorization: bearer  alpha-2\r\n").value_of("Idempotency-Replayed") == "true");
    CHECK(ask("Authorization: Bearer beta==\r\n").value_of("Idempotency-Replayed").empty());
    CHECK(web.effects() == "x\nx");
    CHECK(web.db.rows("SELECT scope FROM skald.idempotency ORDER BY 1") == "a\nb");

    for (std::string const fields : {"", "Authorization: Basic YTpi\r\n", "Authorization: alpha-1\r\n"}) {
        auto const refused = ask(fields);
        CHECK(refused.status == 401);
        CHECK(problem_of(refused) == "unauthorized");
        CHECK(refused.value_of("WWW-Authenticate") == "Bearer");
    }
    for (std::string const token : {"alpha-3", "alpha-", "ALPHA-1", "", "alpha-1 x", "alpha-1,beta==", "\"alpha-1\""}) {
        auto const refused = ask("Authorization: Bearer " + token + "\r\n");
        CHECK_MESSAGE(refused.status == 401, token);
        CHECK(refused.value_of("WWW-Authenticate").starts_with("Bearer"));
        CHECK(refused.body.find("alpha") == std::string::npos);
    }
    CHECK(ask("Authorization: Bearer alpha-1\r\nAuthorization: Bearer beta==\r\n").status == 400);
    CHECK_MESSAGE(web.ask("GET", "/sagas/k").status == 401, "the saga's resource asks too");
    CHECK(web.ask("GET", "/livez").status == 200);
    CHECK(web.effects() == "x\nx");
}

TEST_CASE("a request without the header that says whose it is belongs to nobody, unless the service says otherwise")
{
    {
        live_entry web{{{"POST", "/x", idempotency::required, leaving("x")}}, http::scope_from_header("X-Tenant")};
        for (std::string const fields : {"", "X-Tenant:\r\n", "X-Tenant:  \t\r\n"})
            for (auto const& refused : {web.ask("POST", "/x", "Idempotency-Key: k\r\n" + fields),
                                        web.ask("GET", "/sagas/k", fields), web.ask("DELETE", "/sagas/k", fields)}) {
                CHECK(refused.status == 400);
                CHECK(refused.value_of("Content-Type") == "application/problem+json");
                CHECK(problem_of(refused) == "scope");
            }
        CHECK(web.effects() == "");
        CHECK(web.ask("POST", "/x", "Idempotency-Key: k\r\nX-Tenant: a\r\n").status == 201);
        CHECK(web.db.one("SELECT scope FROM skald.idempotency") == "a");
        CHECK(web.ask("GET", "/livez").status == 200);
        CHECK(web.ask("GET", "/readyz").status == 200);
    }
    live_entry web{{{"POST", "/x", idempotency::required, leaving("x")}},
                   http::scope_from_header("X-Tenant", http::scope_header::optional)};
    CHECK(web.ask("POST", "/x", "Idempotency-Key: k\r\n").status == 201);
    CHECK(web.ask("POST", "/x", "Idempotency-Key: k\r\nX-Tenant: a\r\nX-Tenant: b\r\n").status == 400);
    CHECK(web.db.one("SELECT scope = '' FROM skald.idempotency") == "t");
}

TEST_CASE("who may no longer ask does not hear the stored answer either")
{
    std::atomic<bool> known{true};
    live_entry web{{{"POST", "/x", idempotency::required, leaving("x")}},
                   http::scope_from_bearer([&](std::string const& token) -> std::optional<std::string> {
                       if (token == "broken") throw std::runtime_error{"host=hidden"};
                       return known && http::is_same_secret(token, "t") ? std::optional<std::string>{"a"}
                                                                        : std::nullopt;
                   })};
    auto const fields = std::string{"Idempotency-Key: k\r\nAuthorization: Bearer t\r\n"};
    CHECK(web.ask("POST", "/x", fields).status == 201);
    CHECK(web.ask("POST", "/x", fields).status == 201);
    known = false;
    CHECK(web.ask("POST", "/x", fields).status == 401);
    auto const broken = web.ask("POST", "/x", "Idempotency-Key: k\r\nAuthorization: Bearer broken\r\n");
    CHECK(broken.status == 500);
    CHECK(broken.body.find("hidden") == std::string::npos);
}

TEST_CASE("once this process has found another database in the place of its own, nothing is answered from memory")
{
    live_entry web{{{"POST", "/orders", idempotency::required, leaving("an order")}}};
    REQUIRE(web.ask("POST", "/orders", "Idempotency-Key: k\r\n").status == 201);
    CHECK(web.ask("POST", "/orders", "Idempotency-Key: k\r\n").value_of("Idempotency-Replayed") == "true");

    // As one that was dropped and restored under the process; its sessions end.
    web.db.run("UPDATE skald.service SET id = gen_random_uuid(); TRUNCATE skald.idempotency, skald.response");
    web.db.run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
               "WHERE datname = current_database() AND pid <> pg_backend_pid()");
    CHECK(web.ask("POST", "/orders", "Idempotency-Key: other\r\n").status == 503);
    CHECK(web.ask("POST", "/orders", "Idempotency-Key: k\r\n").status == 503);
    CHECK(web.effects() == "an order");
}
