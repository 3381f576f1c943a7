// Health on an address of its own, on real ports and a real database.
#include "memory/memory_transport.hpp"
#include "support/complaint.hpp"
#include "support/database.hpp"
#include "support/database_wire.hpp"
#include "support/event_log.hpp"
#include "support/live_entry.hpp"
#include "worker/health.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

using namespace skald;
using namespace skald::test;
using http::idempotency;

namespace {

test::raw_client connect_to(std::string const& address)
{
    return test::raw_client{static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)))};
}

struct live_health
{
    explicit live_health(live_entry& web, bool has_relay = true)
        : page{"orders", counts, steps, web.entry.parts(), nullptr, has_relay}, parts{*web.deliveries},
          served{web.settings, postgres::connection_options{.url = web.db.url()}, page, web.log}
    {
        served.start();
        served.begin_service(parts);
    }
    test::raw_answer ask(std::string const& target, std::string const& method = "GET")
    {
        return connect_to(served.address()).ask(live_entry::text(method, target));
    }

    worker_detail::process_metrics counts;
    runtime::registry steps;
    worker_detail::metrics_page page;
    worker_detail::served_parts parts;
    worker_detail::health served;
};

config with_connections(std::size_t count)
{
    config c;
    c.http.connections_max = count;
    c.http.header_time = std::chrono::seconds{600};
    return c;
}

}  // namespace

TEST_CASE("health answers while not one more connection is taken at the entry")
{
    live_entry web{{{"POST", "/x", idempotency::required, leaving("x")}}, {}, with_connections(4)};
    live_health health{web};
    std::vector<test::raw_client> busy;
    for (int i = 0; i < 4; ++i) {
        busy.push_back(web.connect());
        busy.back().send("POST /x HTTP/1.1\r\n");
    }
    CHECK(web.ask("GET", "/livez").status == 503);
    CHECK(health.ask("/livez").body == "alive\n");
    CHECK(health.ask("/readyz").body == "ready\nbroker: connected\n");
    web.transport.go_down();
    CHECK(health.ask("/readyz").body == "ready\nbroker: away\n");
}

TEST_CASE("a probe is answered while slow clients hold far more connections than there are")
{
    live_entry web{{{"POST", "/x", idempotency::required, leaving("x")}}};
    live_health health{web};
    auto const many = [&](std::string const& begun) {
        std::vector<test::raw_client> slow;
        for (int i = 0; i < 100; ++i) {
            slow.push_back(connect_to(health.served.address()));
            slow.back().send(begun);
        }
        return slow;
    };
    for (std::string const begun : {"", "GET /li", "GET /livez HTTP/1.1\r\nHost: a\r\n", "nonsense\r\n\r\n",
                                    "POST /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0",
                                    "POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"}) {
        CAPTURE(begun);
        auto const slow = many(begun);
        for (int i = 0; i < 5; ++i) CHECK(health.ask("/livez").status == 200);
        CHECK(health.ask("/readyz").status == 200);
    }
}

TEST_CASE("what keeps a service from being ready is logged, once for each change, and is not for whoever asks")
{
    live_entry web{{{"POST", "/x", idempotency::required, leaving("x")}}};
    event_log log;
    live_health const other{web};
    worker_detail::health served{web.settings, {.url = web.db.url() + "?user=nobody_has_this_name"}, other.page, log};
    served.start();
    served.begin_service(other.parts);
    for (int i = 0; i < 3; ++i) {
        auto const refused = connect_to(served.address()).ask(live_entry::text("GET", "/readyz"));
        CHECK(refused.status == 503);
        CHECK(refused.body.find("nobody_has_this_name") == std::string::npos);
    }
    REQUIRE(log.lines("worker.not_ready").size() == 1);
    CHECK(log.lines("worker.not_ready")[0].find("nobody_has_this_name") != std::string::npos);
}

TEST_CASE("a frozen database costs a probe seconds on a connection of requests, and these keep the time they have")
{
    using namespace std::chrono_literals;
    database const db;
    database_wire wire{db.url()};
    event_log log;
    memory::memory_transport transport;
    auto const deliveries = transport.subscribe({"orders", 1});
    entry_detail::readiness_probe probe{log};
    postgres::postgres_store store{{.url = wire.url()}};
    REQUIRE(probe.respond(store, *deliveries).status == 200);
    wire.freeze(true);
    CHECK(probe.respond(store, *deliveries).status == 503);
    REQUIRE(log.lines("worker.not_ready").size() == 1);
    auto const why = log.lines("worker.not_ready")[0];
    CHECK_MESSAGE(why.find("the database gave no answer within 3000 ms") != std::string::npos, why);
    wire.freeze(false);
    CHECK(testing::wait_until([&] { return probe.respond(store, *deliveries).status == 200; }));

    postgres::connection c{{.url = wire.url()}};
    c.answer_within(300ms);
    c.ping(10s);
    wire.freeze(true);
    CHECK_THROWS_WITH_AS(c.ping(), doctest::Contains("within 300 ms"), postgres::no_answer);
}

TEST_CASE("the health address has health and nothing else, and a service that stops lives but is not ready")
{
    live_entry web{{{"POST", "/x", idempotency::required, leaving("x")}}};
    live_health health{web};
    CHECK(health.ask("/x", "POST").status == 404);
    CHECK(health.ask("/sagas/k").status == 404);
    CHECK(health.ask("/livez", "POST").status == 404);
    CHECK(health.ask("/readyz").status == 200);
    health.served.begin_drain();
    CHECK(health.ask("/livez").status == 200);
    auto const stopping = health.ask("/readyz");
    CHECK(stopping.status == 503);
    CHECK(problem_of(stopping) == "not-ready");
}

TEST_CASE("/metrics says nothing of a relay where another process has it")
{
    live_entry web;
    live_health with{web}, without{web, false};
    CHECK(test::contains(with.ask("/metrics").body, "\nskald_relay_connected{"));
    CHECK_FALSE(test::contains(without.ask("/metrics").body, "\nskald_relay_"));
}

TEST_CASE("/metrics is at the health address and nowhere else, and shows what was asked, by route and never by path")
{
    live_entry web{{{"POST", "/x/{id}", idempotency::required, leaving("x")}}};
    live_health health{web};
    CHECK(web.ask("POST", "/x/1", "Idempotency-Key: a\r\n").status == 201);
    CHECK(web.ask("POST", "/x/1", "Idempotency-Key: a\r\n").status == 201);
    CHECK(web.ask("POST", "/x/2", "Idempotency-Key: a\r\n").status == 422);
    CHECK(web.ask("GET", "/no/such/path").status == 404);
    CHECK(web.ask("GET", "/metrics").status == 404);

    auto const page = health.ask("/metrics");
    CHECK(page.status == 200);
    CHECK(page.has("Content-Type: text/plain; version=0.0.4; charset=utf-8"));
    auto const has = [&](std::string const& line) { return page.body.find('\n' + line + '\n') != std::string::npos; };
    std::string const route{R"({service="orders",route="POST /x/{id}")"};
    CHECK(has("skald_http_requests_total" + route + R"(,status="201"} 2)"));
    CHECK(has("skald_http_requests_total" + route + R"(,status="422"} 1)"));
    CHECK(has("skald_http_replayed_total" + route + "} 1"));
    CHECK(has("skald_http_request_seconds_count" + route + "} 3"));
    CHECK(has(R"(skald_http_requests_total{service="orders",route="other",status="404"} 2)"));
    CHECK(has(R"(skald_consumer_connected{service="orders"} 1)"));
    CHECK(page.body.find("no/such") == std::string::npos);
    CHECK(health.ask("/metrics", "POST").status == 404);
}
