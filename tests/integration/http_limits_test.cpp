// Each limit of a connection, at its value and one beyond. Those of a request are in http_server_pressure_test.cpp.
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include <skald/testing/wait_until.hpp>

#include "support/live_server.hpp"

using namespace skald::test;
using skald::testing::wait_until;

namespace {

constexpr std::uint32_t another_address = INADDR_LOOPBACK + 1;

/// The head of a request whose body is still to come.
std::string head_with_length(std::size_t size)
{
    return "POST /body HTTP/1.1\r\nHost: shop\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n";
}

}  // namespace

TEST_CASE("one address has its number of connections, beyond it is told 429, and another is served all the same")
{
    live_server on{{.limits = {.peer_connections_max = 2}}};
    auto first = on.connect();
    auto second = on.connect();
    CHECK(first.ask(get("/")).status == 200);
    CHECK(second.ask(get("/")).status == 200);

    auto third = on.connect();
    auto const answer = third.read_answer();
    CHECK(answer.status == 429);
    CHECK(answer.has("Retry-After: 1"));
    CHECK(answer.has("Content-Type: application/problem+json"));
    CHECK(third.is_closed());
    CHECK(raw_client{on.service.port(), 0, another_address}.ask(get("/")).status == 200);

    first.close();
    CHECK_MESSAGE(wait_until([&] { return on.connect().ask(get("/")).status == 200; }), "there is room again");
}

TEST_CASE("a server that sheds slow clients gives a new one the place of the one that has waited longest")
{
    live_server on{{.limits = {.header_time = 600s, .write_time = 600s, .idle_time = 600s, .connections_max = 3},
                    .lanes = 2,
                    .sheds_slow_clients = true}};
    auto const request = get("/");
    auto half = on.connect();
    half.send(request.substr(0, 7));
    auto reads_nothing = on.connect(4096);
    reads_nothing.send(get("/large"));
    REQUIRE(wait_until([&] { return on.handled == 1 && on.service.load().lanes_busy == 0; }));
    auto idle = on.connect();
    CHECK(idle.ask(request).status == 200);

    auto second_half = on.connect();
    CHECK(half.is_closed());
    second_half.send(request.substr(0, 7));
    CHECK_FALSE(idle.has_heard());
    CHECK(on.connect().ask(request).status == 200);  // in the place of the one that reads nothing
    CHECK(reads_nothing.read_answer().body.empty());
    CHECK(second_half.ask(request.substr(7)).status == 200);
}

TEST_CASE("a client that waits for the server is not shed")
{
    live_server on{{.limits = {.connections_max = 2}, .lanes = 1, .sheds_slow_clients = true}};
    auto running = on.connect();
    running.send(get("/hold"));
    on.held.wait_for(1);
    auto queued = on.connect();
    queued.send(get("/queued"));
    REQUIRE(wait_until([&] { return on.service.load().queued == 1; }));
    CHECK(on.connect().read_answer().status == 503);
    on.held.open();
    CHECK(running.read_answer().status == 200);
    CHECK(queued.read_answer().status == 200);
}

TEST_CASE("by default one address may have all connections, for a proxy is one")
{
    live_server on{{.limits = {.header_time = 120s, .connections_max = 50}}};
    std::vector<raw_client> all;
    for (int i = 0; i < 50; ++i) CHECK(all.emplace_back(on.connect()).ask(get("/")).status == 200);
    auto const request = get("/");
    for (auto& client : all) client.send(request.substr(0, 7));  // none of them is idle
    CHECK(on.connect().read_answer().status == 503);
    CHECK(all.front().ask(request.substr(7)).status == 200);
}

TEST_CASE("a connection serves its number of requests, says so with the last, and reads no more")
{
    live_server on{{.limits = {.connection_requests_max = 3}}};
    auto client = on.connect();
    client.send(get("/1") + get("/2") + get("/3") + get("/4"));
    CHECK(client.read_answer().has("Connection: keep-alive"));
    CHECK(client.read_answer().has("Connection: keep-alive"));
    auto const last = client.read_answer();
    CHECK(last.body == "GET /3 ");
    CHECK(last.has("Connection: close"));
    CHECK(client.is_closed());
    CHECK(on.handled == 3);
    CHECK(on.connect().ask(get("/4")).body == "GET /4 ");
}

TEST_CASE("a body that comes at its least rate is read however long it takes, and one that does not is a 408")
{
    // Its 60 bytes buy a minute; the other buys nothing, and its end tells that the time for a body has passed.
    live_server on{{.limits = {.body_time = 50ms, .body_rate_min = 1}}};
    auto steady = on.connect();
    steady.send(head_with_length(61));
    steady.send(std::string(60, 'b'));
    auto silent = on.connect();
    CHECK(silent.ask(head_with_length(5)).status == 408);
    CHECK(silent.is_closed());
    CHECK(steady.ask("b").body == "POST /body " + std::string(61, 'b'));
}

TEST_CASE("bytes that come more slowly than the least rate do not prolong the time for a body")
{
    for (std::size_t const rate : {std::size_t{0}, std::size_t{1} << 50}) {
        CAPTURE(rate);
        live_server on{
            {.limits = {
                 .body_bytes_max = 1 << 30, .bodies_bytes_max = 1 << 30, .body_time = 50ms, .body_rate_min = rate}}};
        auto client = on.connect();
        client.send(head_with_length(1 << 30));
        std::jthread const dribble{[&](std::stop_token const& stop) {
            while (!stop.stop_requested() && client.send("b")) std::this_thread::yield();
        }};
        CHECK(client.read_answer().status == 408);
    }
}

TEST_CASE("the framing of chunks buys no time beyond what the largest body is worth")
{
    // 20 bytes buy 20 ms, however many bytes of framing each comes with.
    live_server on{{.limits = {.body_bytes_max = 20, .body_time = 20ms, .body_rate_min = 1'000}}};
    auto client = on.connect();
    client.send("POST / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 19; ++i) client.send("1;" + std::string(800, 'x') + "\r\nb\r\n");
    CHECK(client.read_answer().status == 408);
    CHECK(on.handled == 0);
}

TEST_CASE("the queue has its number of places, and with none a free lane still takes work")
{
    live_server on{{.limits = {.queue_max = 2}, .lanes = 1}};
    auto running = on.connect();
    running.send(get("/hold"));
    on.held.wait_for(1);
    std::array<raw_client, 2> queued{on.connect(), on.connect()};
    for (auto& client : queued) client.send(get("/queued"));
    REQUIRE(wait_until([&] { return on.service.load().queued == 2; }));
    CHECK(on.connect().ask(get("/beyond")).status == 503);
    on.held.open();
    for (auto& client : queued) CHECK(client.read_answer().status == 200);

    live_server none{{.limits = {.queue_max = 0}, .lanes = 1}};
    CHECK(none.connect().ask(get("/")).status == 200);
    auto holder = none.connect();
    holder.send(get("/hold"));
    none.held.wait_for(1);
    CHECK(none.connect().ask(get("/beyond")).status == 503);
}

TEST_CASE("nobody waits longer than the server lets him, whatever he asks for")
{
    live_server on{{.wait_max = 0s}};
    CHECK(on.connect().ask(get("/wait")).body == "not yet");
    CHECK(on.handled == 1);
    live_server short_patience{{.wait_max = 1s}};
    CHECK(short_patience.connect().ask(get("/wait")).body == "not yet");
    CHECK(short_patience.handled > 1);  // it was looked at again, and then told
}

TEST_CASE("an answer that is read late but in time is read whole, and nobody else waits for it")
{
    live_server on{{.limits = {.write_time = 600s}}};
    auto slow = on.connect(4096);
    slow.send(get("/large"));
    REQUIRE(wait_until([&] { return on.handled == 1; }));
    auto quick = on.connect();
    CHECK(quick.ask(get("/large")).body.size() == 32 * 1024 * 1024);
    CHECK(slow.read_answer().body.size() == 32 * 1024 * 1024);
}
