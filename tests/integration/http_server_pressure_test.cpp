// The server on a real port, under pressure: limits, slow clients, full queues, the end of the process.
#include <doctest/doctest.h>

#include <array>
#include <future>
#include <latch>
#include <string>
#include <thread>

#include <skald/testing/wait_until.hpp>

#include "support/live_server.hpp"

using namespace skald::test;
using skald::test::first_with_answer;
using skald::testing::wait_until;

TEST_CASE("the limits hold at their value and refuse one beyond")
{
    live_server on{
        {.limits = {
             .request_line_bytes_max = 100, .header_bytes_max = 300, .header_count_max = 5, .body_bytes_max = 20}}};
    auto const line = [](std::size_t size) { return get('/' + std::string(size - 14, 'a')); };
    auto const fields = [](std::size_t count) {
        std::string lines;
        for (std::size_t i = 1; i < count; ++i) lines += "X: y\r\n";
        return get("/", lines);
    };
    auto const head = [](std::size_t size) {
        auto const rest = get("/", "X: \r\n").size();
        return get("/", "X: " + std::string(size - rest, 'x') + "\r\n");
    };
    auto const body = [](std::size_t size) { return post("/", std::string(size, 'b')); };
    for (auto const& bytes : {line(100), fields(5), head(300), body(20)}) CHECK(on.connect().ask(bytes).status == 200);

    struct row
    {
        std::string bytes;
        int status;
    };
    for (auto const& r : {row{line(101), 414}, row{fields(6), 431}, row{head(301), 431}, row{body(21), 413}}) {
        auto const& [bytes, status] = r;
        auto client = on.connect();
        CHECK(client.ask(bytes).status == status);
        CHECK(client.is_closed());
    }
}

TEST_CASE("a refused client that is still sending hears why")
{
    live_server on{{.limits = {.body_bytes_max = 1000}}};
    auto client = on.connect();
    // The server refuses on the head alone, and closes while most of this is unread.
    CHECK(client.send(post("/", std::string(500'000, 'b'))));
    CHECK(client.read_answer().status == 413);
    CHECK(client.is_closed());
    for (int i = 0; i < 10; ++i) CHECK(client.send(std::string(10'000, 'b')));  // a reset would fail this
}

TEST_CASE("a head or a body that takes too long is a 408 and the end of the connection")
{
    live_server on{{.limits = {.header_time = 20ms, .body_time = 20ms}}};
    for (std::string const bytes : {"GET /slow HT", "POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 5\r\n\r\nhel",
                                    "POST / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"}) {
        CAPTURE(bytes);
        auto client = on.connect();
        CHECK(client.ask(bytes).status == 408);
        CHECK(client.is_closed());
    }
    CHECK(on.handled == 0);
}

TEST_CASE("the time for a head is total: a byte now and then doesn't prolong it")
{
    // Only time can end this head: the limit of bytes is far away, and the client never stops.
    live_server on{{.limits = {.header_bytes_max = 1 << 30, .header_time = 50ms}}};
    auto client = on.connect();
    client.send("GET / HTTP/1.1\r\nHost: shop\r\nX: ");
    std::jthread const dribble{[&](std::stop_token const& stop) {
        while (!stop.stop_requested() && client.send("x")) std::this_thread::yield();
    }};
    CHECK(client.read_answer().status == 408);
}

TEST_CASE("a connection without a request is closed without a word")
{
    live_server on{{.limits = {.idle_time = 20ms}}};
    CHECK(on.connect().is_closed());
    // Again after an answer. A busy machine may keep this client from asking in time, so it tries until it does.
    for (bool was_answered = false; !was_answered;) {
        auto client = on.connect();
        was_answered = client.ask(get("/")).status == 200;
        CHECK(client.is_closed());
    }
}

TEST_CASE("a client that doesn't read its answer is cut off")
{
    live_server on{{.limits = {.write_time = 50ms}, .lanes = 1}};
    auto client = on.connect(4096);
    client.send(get("/large"));
    CHECK(on.log.wait_for("http.client_too_slow"));
    CHECK(client.read_to_end().size() < 32 * 1024 * 1024);
    CHECK(on.connect().ask(get("/next")).status == 200);
}

TEST_CASE("when the lanes and the queue are full the answer is 503 at once, and /livez still answers")
{
    live_server on{{.limits = {.queue_max = 1}, .lanes = 1}};
    auto running = on.connect();
    running.send(get("/hold"));
    on.held.wait_for(1);

    // Whichever of these two is read first waits; the other is told to come again.
    std::array<raw_client, 2> rivals{on.connect(), on.connect()};
    for (auto& rival : rivals) rival.send(get("/rival"));
    auto const turned_down = first_with_answer(rivals);
    auto const refused = rivals[turned_down].read_answer();
    CHECK(refused.status == 503);
    CHECK(refused.has("Retry-After: 1"));
    CHECK(refused.has("Content-Type: application/problem+json"));
    CHECK(refused.has("Connection: keep-alive"));
    CHECK(on.connect().ask(get("/extra")).status == 503);
    CHECK(on.connect().ask(get("/livez")).body == "alive");

    on.held.open();
    CHECK(running.read_answer().body == "GET /hold ");
    CHECK(rivals[1 - turned_down].read_answer().body == "GET /rival ");
    CHECK(rivals[turned_down].ask(get("/again")).body == "GET /again ");
}

TEST_CASE("who waits for a better answer has no lane, and beyond the number of those a client hears how it stands")
{
    live_server on{{.limits = {.waits_max = 2}, .lanes = 1}};
    auto first = on.connect();
    auto second = on.connect();
    first.send(get("/wait"));
    second.send(get("/wait"));
    REQUIRE(wait_until([&] { return on.handled >= 2; }));
    CHECK(on.connect().ask(get("/other")).body == "GET /other ");
    CHECK(on.connect().ask(get("/wait")).body == "not yet");
    on.ready = true;
    CHECK(first.read_answer().body == "GET /wait ");
    CHECK(second.read_answer().body == "GET /wait ");

    on.ready = false;
    auto third = on.connect();
    third.send(get("/wait"));
    auto const before = on.handled.load();
    CHECK_MESSAGE(wait_until([&] { return on.handled > before + 2; }), "there is room again, and it is looked at");
    on.ready = true;
    CHECK(third.read_answer().body == "GET /wait ");
    CHECK(third.ask(get("/next")).body == "GET /next ");
}

TEST_CASE("the I/O thread is asked first, also at each poll, and finds what was noted about the request")
{
    live_server on{{.lanes = 1}};
    auto waiter = on.connect();
    waiter.send(get("/counted"));
    REQUIRE(wait_until([&] { return on.handled == 1; }));
    auto holder = on.connect();
    holder.send(get("/hold"));
    on.held.wait_for(1);
    CHECK_MESSAGE(wait_until([&] { return on.handled_now > 3; }), "it is polled although every lane is taken");
    on.ready = true;
    CHECK(waiter.read_answer().body == "asked again");
    on.held.open();
    CHECK(holder.read_answer().body == "GET /hold ");
    CHECK(on.handled == 2);
    CHECK(waiter.ask(get("/next")).body == "GET /next ");
}

TEST_CASE("a wait ends in time although every lane is taken, and the look that comes too late answers nobody")
{
    live_server on{{.lanes = 1, .wait_max = 1s}};
    auto waiter = on.connect();
    waiter.send(get("/wait"));
    REQUIRE(wait_until([&] { return on.handled >= 1; }));
    auto holder = on.connect();
    holder.send(get("/hold"));
    on.held.wait_for(1);
    CHECK(waiter.read_answer().body == "not yet");
    waiter.send(get("/next"));
    on.ready = true;
    on.held.open();
    CHECK(holder.read_answer().body == "GET /hold ");
    CHECK(waiter.read_answer().body == "GET /next ");
    CHECK(waiter.ask(get("/more")).body == "GET /more ");
}

TEST_CASE("a full entry closes whoever has been idle longest, and no one else, for a client that comes")
{
    live_server on{{.limits = {.idle_time = 3'600s, .connections_max = 4}}};
    std::vector<raw_client> idle;
    for (int i = 0; i < 4; ++i) {
        idle.push_back(on.connect());
        CHECK(idle.back().ask(get("/" + std::to_string(i))).status == 200);
    }
    CHECK(idle[0].ask(get("/again")).status == 200);  // now the second has been idle longest
    auto busy = on.connect();
    busy.send(get("/hold"));
    on.held.wait_for(1);
    CHECK(idle[1].is_closed());
    CHECK(on.connect().ask(get("/livez")).body == "alive");
    CHECK(idle[2].is_closed());
    CHECK(idle[0].ask(get("/again")).status == 200);
    on.held.open();
    CHECK(busy.read_answer().body == "GET /hold ");
}

TEST_CASE("clients that connect and say nothing shut nobody out, however many they are")
{
    live_server on{{.limits = {.idle_time = 3'600s, .connections_max = 20}}};
    std::vector<raw_client> silent;
    for (int i = 0; i < 100; ++i) silent.push_back(on.connect());
    CHECK(on.connect().ask(get("/livez")).body == "alive");
    CHECK(on.connect().ask(get("/x")).body == "GET /x ");
}

TEST_CASE("beyond the number of connections a client is told 503 and closed, where none of the others is idle")
{
    live_server on{{.limits = {.header_time = 120s, .connections_max = 2}}};
    auto first = on.connect();
    auto second = on.connect();
    for (auto* client : {&first, &second}) {
        CHECK(client->ask(get("/")).status == 200);
        client->send("GET / HTTP/1.1\r\n");
    }
    auto third = on.connect();
    auto const answer = third.read_answer();
    CHECK(answer.status == 503);
    CHECK(answer.has("Retry-After: 1"));
    CHECK(third.is_closed());

    CHECK(first.ask("Host: shop\r\nConnection: close\r\n\r\n").status == 200);
    CHECK(first.is_closed());
    CHECK(on.connect().ask(get("/")).status == 200);
}

TEST_CASE("a client that is slow does not hold up another")
{
    live_server on{{.lanes = 1}};
    auto slow = on.connect();
    auto silent = on.connect();
    auto quick = on.connect();
    slow.send("POST /slow HTTP/1.1\r\nHost: shop\r\nContent-Length: 5\r\n\r\nhel");
    for (int i = 0; i < 10; ++i) CHECK(quick.ask(get("/quick")).body == "GET /quick ");
    CHECK(on.handled == 10);
    CHECK(slow.ask("lo").body == "POST /slow hello");
}

TEST_CASE("a client that leaves while its request runs does no harm")
{
    for (bool const resets : {false, true}) {
        live_server on{{.lanes = 1}};
        auto client = on.connect();
        client.send(get("/hold"));
        on.held.wait_for(1);
        if (resets) client.reset();
        else client.close();
        on.held.open();
        CHECK(on.connect().ask(get("/next")).status == 200);
        CHECK(on.handled == 2);
    }
}

TEST_CASE_FIXTURE(live_server, "drain closes idle connections and lets a running request finish")
{
    auto idle = connect();
    CHECK(idle.ask(get("/")).status == 200);
    auto running = connect();
    running.send(get("/hold"));
    held.wait_for(1);

    auto drained = std::async(std::launch::async, [&] { return service.drain(30s); });
    CHECK(idle.is_closed());  // so the drain has begun
    CHECK_THROWS(connect());
    held.open();
    auto const answer = running.read_answer();
    CHECK(answer.body == "GET /hold ");
    CHECK(answer.has("Connection: close"));
    CHECK(running.is_closed());
    CHECK(drained.get());
    CHECK(service.drain(0s));  // again: nothing to do
}

TEST_CASE_FIXTURE(live_server, "drain lets a request that is half read finish")
{
    auto half = connect();
    auto idle = connect();
    // One answer on each first, so that the server has both before the drain begins.
    CHECK(idle.ask(get("/")).status == 200);
    CHECK(half.ask(get("/")).status == 200);
    half.send("POST /half HTTP/1.1\r\nHost: shop\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    CHECK(half.read_answer(false).status == 100);

    auto drained = std::async(std::launch::async, [&] { return service.drain(30s); });
    CHECK(idle.is_closed());
    CHECK(half.ask("hello").body == "POST /half hello");
    CHECK(drained.get());
}

TEST_CASE("drain serves a request that has arrived and was not looked at yet")
{
    for (int round = 0; round < 10; ++round) {  // in most of them the drain begins before the request is read
        live_server on;
        auto client = on.connect();
        CHECK(client.ask(get("/")).status == 200);
        auto other = on.connect();
        other.send(get("/livez/hold"));
        on.held.wait_for(1);  // the thread that reads is busy

        client.send(get("/late"));
        std::latch begun{1};
        auto drained = std::async(std::launch::async, [&] {
            begun.count_down();
            return on.service.drain(30s);
        });
        begun.wait();
        for (int n = 0; n < 100; ++n) std::this_thread::yield();
        on.held.open();
        CHECK(client.read_answer().body == "GET /late ");
        CHECK(client.is_closed());
        CHECK(drained.get());
    }
}

TEST_CASE_FIXTURE(live_server, "drain says so when a request didn't finish in time")
{
    check_that_drain_cuts_off_what_is_late(*this);
}
