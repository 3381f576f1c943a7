// The edge on a real port and a real database: clients that leave, are slow, or ask again, and what is left of them.
#include "support/descriptors.hpp"
#include "support/held_handler.hpp"
#include "support/live_entry.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace skald;
using namespace skald::test;
using namespace std::chrono_literals;
using http::idempotency;
using testing::wait_until;

namespace {

// Longer than any test waits: what ends, ends because the client left.
config patient(std::size_t lanes)
{
    config c;
    c.http_lanes = lanes;
    c.http_wait_max = 600s;
    c.http.header_time = c.http.body_time = c.http.write_time = c.http.idle_time = 600s;
    return c;
}

std::string key(std::string const& k)
{
    return "Idempotency-Key: " + k + "\r\n";
}

http::response large(http::request_context& ctx)
{
    ctx.sql("INSERT INTO effect VALUES ('large')");
    return {200, "application/octet-stream", {}, std::string(4 * 1024 * 1024, 'x')};
}

/// One lane; /held stays until it is let out, /quick does not.
struct edge
{
    ~edge() { held.let_out(); }

    test::raw_answer ask(std::string const& path, std::string const& k, std::string const& more = {}) const
    {
        return web.ask("POST", path, key(k) + more);
    }
    void hold_lane(test::raw_client& client, std::string const& k)
    {
        client.send(live_entry::text("POST", "/held", key(k)));
        held.wait_until_inside();
    }
    bool is_quiet() const
    {
        return wait_until([&] { return web.server->load() == http::server_load{}; });
    }

    held_handler held;
    live_entry web{{{"POST", "/held", idempotency::required, [this](http::request_context& ctx) { return held(ctx); }},
                    {"POST", "/quick", idempotency::required, leaving("quick")},
                    {"POST", "/large", idempotency::required, large}},
                   {},
                   patient(1)};
};

bool is_replay(test::raw_answer const& answer)
{
    return answer.value_of("Idempotency-Replayed") == "true";
}

/// The answer without what each answer has of its own.
std::string comparable(test::raw_answer const& answer)
{
    auto head = answer.head;
    for (std::string_view const own : {"\r\nDate: ", "\r\nIdempotency-Replayed: "})
        if (auto const at = head.find(own); at != std::string::npos) head.erase(at, head.find("\r\n", at + 2) - at);
    return head + answer.body;
}

}  // namespace

TEST_CASE("a client that leaves before its request is whole has asked nothing, and its key is new")
{
    edge on;
    auto const request = live_entry::text("POST", "/quick", key("k"), "{}");
    for (auto const size : {request.size() / 2, request.size() - 1}) {
        auto client = on.web.connect();
        client.send(request.substr(0, size));
        REQUIRE(wait_until([&] { return on.web.server->load().connections == 1; }));
        client.close();
        CHECK(on.is_quiet());
    }
    CHECK(on.web.effects().empty());
    CHECK(!is_replay(on.web.ask("POST", "/quick", key("k"), "{}")));
    CHECK(on.web.effects() == "quick");
}

TEST_CASE("a client that leaves in the queue, or while it is served, hears the same answer when it asks again")
{
    for (bool const resets : {false, true}) {
        edge on;
        auto served = on.web.connect();
        on.hold_lane(served, "first");
        auto queued = on.web.connect();
        queued.send(live_entry::text("POST", "/quick", key("second")));
        REQUIRE(wait_until([&] { return on.web.server->load().queued == 1; }));
        for (auto* client : {&served, &queued}) resets ? client->reset() : client->close();
        on.held.let_out();
        CHECK(on.is_quiet());
        for (auto const* path : {"/held", "/quick"}) {
            auto const again = on.ask(path, path == std::string{"/held"} ? "first" : "second");
            CHECK(again.status == 201);
            CHECK(is_replay(again));
        }
        CHECK(on.web.effects() == "held\nquick");
    }
}

TEST_CASE("duplicates that leave while they wait give up their places while the first still runs")
{
    edge on;
    auto first = on.web.connect();
    on.hold_lane(first, "k");
    std::vector<test::raw_client> waiters;
    for (int i = 0; i < 10; ++i) {
        waiters.push_back(on.web.connect());
        waiters.back().send(live_entry::text("POST", "/held", key("k") + "Prefer: wait=600\r\n"));
    }
    REQUIRE(wait_until([&] { return on.web.server->load().waits == 10; }));
    for (std::size_t i = 1; i < waiters.size(); ++i) i % 2 == 0 ? waiters[i].reset() : waiters[i].close();
    CHECK(wait_until([&] { return on.web.server->load().waits == 1; }));
    CHECK(on.web.server->load().lanes_busy == 1);
    on.held.let_out();
    CHECK(first.read_answer().status == 201);
    CHECK(is_replay(waiters[0].read_answer()));
    CHECK(on.held.runs == 1);
}

TEST_CASE("a client that leaves while its answer is written hears it whole when it asks again")
{
    edge on;
    {
        test::raw_client client{on.web.server->port(), 4096};
        client.send(live_entry::text("POST", "/large", key("k")));
        REQUIRE(wait_until([&] { return client.has_heard(); }));
        client.reset();
    }
    CHECK(on.is_quiet());
    auto const again = on.ask("/large", "k");
    CHECK(is_replay(again));
    CHECK(again.body == std::string(4 * 1024 * 1024, 'x'));
    CHECK(on.web.effects() == "large");
}

TEST_CASE("a client that leaves between pipelined requests finds each of them done once when it asks again")
{
    edge on;
    auto client = on.web.connect();
    client.send(live_entry::text("POST", "/quick", key("one")) + live_entry::text("POST", "/held", key("two")) +
                live_entry::text("POST", "/quick", key("three")));
    CHECK(client.read_answer().status == 201);
    on.held.wait_until_inside();
    client.close();
    on.held.let_out();
    CHECK(on.is_quiet());
    CHECK(is_replay(on.ask("/quick", "one")));
    CHECK(is_replay(on.ask("/held", "two")));
    CHECK(on.ask("/quick", "three").status == 201);  // whether it was read before is the kernel's affair
    CHECK(on.web.effects() == "held\nquick\nquick");
}

TEST_CASE("clients that dribble hold neither a lane nor a transaction, and are served when they are done")
{
    constexpr int slow_count = 300;
    test::need_descriptors(2 * slow_count + 200);
    edge on;
    std::vector<test::raw_client> slow;
    for (int i = 0; i < slow_count; ++i) {
        auto const request = live_entry::text("POST", "/quick", key("slow-" + std::to_string(i)), "{}");
        slow.push_back(on.web.connect());
        slow.back().send(request.substr(0, request.size() - (i % 2 == 0 ? 1 : 10)));  // in the body; in the head
    }
    REQUIRE(wait_until([&] { return on.web.server->load().connections == slow_count; }));
    for (int i = 0; i < 20; ++i) CHECK(on.ask("/quick", "good-" + std::to_string(i)).status == 201);
    CHECK(on.web.server->load().lanes_busy == 0);
    CHECK(on.web.server->load().queued == 0);
    CHECK(on.web.db.one("SELECT count(*) FROM effect") == "20");
    CHECK(on.web.db.one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                        "pid <> pg_backend_pid() AND state <> 'idle'") == "0");
    for (int i = 0; i < slow_count; ++i) {
        auto const request = live_entry::text("POST", "/quick", key("slow-" + std::to_string(i)), "{}");
        CHECK(slow[static_cast<std::size_t>(i)].ask(request.substr(request.size() - (i % 2 == 0 ? 1 : 10))).status ==
              201);
    }
    CHECK(on.web.db.one("SELECT count(*) FROM effect") == std::to_string(20 + slow_count));
}

TEST_CASE("a replay is the first answer again, byte for byte as the client has it: JSON, text, binary, none")
{
    std::string every_byte;
    for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
    std::vector<http::response> const answers{
        {201, "application/json", {{"Location", "/a/1"}}, "{\"b\": 1, \"a\":1.0 }"},
        {200, "text/plain; charset=utf-8", {{"ETag", "\"1\""}}, "caf\xc3\xa9 \xff\n"},
        {200, "application/octet-stream", {}, every_byte},
        {404, "application/json", {}, "[]"},
        {202, "", {{"Retry-After", "3"}}, ""},
        {200, "text/html", {{"Link", "</a>"}, {"X-Own", "caf\xe9"}, {"Link", "</b>"}, {"Set-Cookie", "s=1"}}, "\x80"},
        {204, "", {}, ""}};
    config from_database;
    from_database.http.kept_bytes_max = 0;
    live_entry web{{{"POST", "/{n}", idempotency::required,
                     [&](http::request_context& ctx) {
                         ctx.sql("INSERT INTO effect VALUES ($1)", ctx.parameter("n"));
                         return answers.at(std::stoul(ctx.parameter("n")));
                     }}},
                   {},
                   from_database};
    for (std::size_t i = 0; i < answers.size(); ++i) {
        CAPTURE(i);
        auto const path = '/' + std::to_string(i);
        auto const first = web.ask("POST", path, key("k" + path.substr(1)));
        auto const again = web.ask("POST", path, key("\"k" + path.substr(1) + '"'));  // quoted, it is the same key
        CHECK(first.status == answers[i].status);
        CHECK(first.body == answers[i].body);
        CHECK(!is_replay(first));
        CHECK(is_replay(again));
        CHECK(comparable(again) == comparable(first));
    }
    CHECK(web.db.one("SELECT count(*) FROM effect") == std::to_string(answers.size()));
}

TEST_CASE("health costs little: /livez is answered while every lane is taken, and neither leaves a transaction")
{
    edge on;
    for (int i = 0; i < 20; ++i) {
        CHECK(on.web.ask("GET", "/readyz").status == 200);
        CHECK(on.web.ask("GET", "/livez").status == 200);
    }
    std::string const others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    CHECK(on.web.db.one("SELECT count(*) " + others) == "1");  // the lane's own connection
    CHECK(on.web.db.one("SELECT count(*) " + others + " AND state <> 'idle'") == "0");
    auto first = on.web.connect();
    on.hold_lane(first, "k");
    CHECK(on.web.ask("GET", "/livez").status == 200);
}

TEST_CASE("what the settings say bounds what a client may send")
{
    auto c = patient(1);
    c.http.body_bytes_max = 10;
    c.http.connection_requests_max = 2;
    live_entry web{{{"POST", "/quick", idempotency::required, leaving("quick")}}, {}, c};
    auto client = web.connect();
    CHECK(client.ask(live_entry::text("POST", "/quick", key("a"), std::string(10, 'b'))).status == 201);
    CHECK(client.ask(live_entry::text("POST", "/quick", key("b"))).value_of("Connection") == "close");
    CHECK(web.ask("POST", "/quick", key("c"), std::string(11, 'b')).status == 413);
    CHECK(web.effects() == "quick\nquick");
}
