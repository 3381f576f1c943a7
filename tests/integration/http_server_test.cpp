// The server on a real port, with raw sockets against it.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "http/problem.hpp"
#include "http/server.hpp"
#include "support/raw_http.hpp"

using namespace skald;
using namespace skald::http;
using namespace std::chrono_literals;
using testing::raw_client;

namespace {

/// Keeps the events and lets a test wait for one.
class event_log final : public core::logger
{
public:
    void write(core::severity, std::string_view event, std::initializer_list<core::log_field>) noexcept override
    {
        std::lock_guard const lock{mutex_};
        events_.emplace_back(event);
        changed_.notify_all();
    }
    bool wait_for(std::string_view event)
    {
        std::unique_lock lock{mutex_};
        return changed_.wait_for(lock, 30s, [&] {
            for (auto const& seen : events_)
                if (seen == event) return true;
            return false;
        });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> events_;
};

/// Holds handlers at "/hold" until it is opened, and tells how many are there.
class gate
{
public:
    void pass()
    {
        std::unique_lock lock{mutex_};
        ++waiting_;
        changed_.notify_all();
        changed_.wait(lock, [&] { return is_open_; });
    }
    void wait_for(std::size_t count)
    {
        std::unique_lock lock{mutex_};
        changed_.wait(lock, [&] { return waiting_ >= count; });
    }
    void open()
    {
        std::lock_guard const lock{mutex_};
        is_open_ = true;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t waiting_{0};
    bool is_open_{false};
};

response text(std::string body)
{
    return {.status = 200, .content_type = "text/plain", .headers = {}, .body = std::move(body)};
}

server_options on_free_port(server_options options = {})
{
    options.listen = "127.0.0.1:0";
    return options;
}

/// A server whose handler echoes, except at the paths that misbehave.
struct fixture
{
    event_log log;
    gate held;
    std::atomic<int> handled{0};
    server service;

    explicit fixture(server_options options = {})
        : service{on_free_port(options), [this](request& message, std::size_t) { return handle(message); }, log,
                  [](request const& message) -> std::optional<response> {
                      if (message.path == "/livez") return text("alive");
                      if (message.path == "/livez/throws") throw std::runtime_error{"secret"};
                      return {};
                  }}
    {
        service.start();
    }
    // A test that failed half-way must not leave a handler waiting for a gate that nobody opens.
    ~fixture() { held.open(); }

    response handle(request const& message)
    {
        ++handled;
        if (message.path == "/hold") held.pass();
        if (message.path == "/throws") throw std::runtime_error{"password=secret"};
        if (message.path == "/splits") {
            auto answer = text("x");
            answer.headers = {{"Location", "/a\r\nSet-Cookie: stolen=1"}};
            return answer;
        }
        if (message.path == "/nothing") return {.status = 204, .content_type = "x/y", .headers = {}, .body = "ignored"};
        if (message.path == "/large") return text(std::string(32 * 1024 * 1024, 'x'));
        return text(message.method + ' ' + message.path + ' ' + message.body);
    }

    raw_client connect(int receive_bytes = 0) { return raw_client{service.port(), receive_bytes}; }
};

std::string get(std::string const& path, std::string const& fields = {})
{
    return "GET " + path + " HTTP/1.1\r\nHost: shop\r\n" + fields + "\r\n";
}

std::string post(std::string const& path, std::string const& body, std::string const& fields = {})
{
    return "POST " + path + " HTTP/1.1\r\nHost: shop\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

}  // namespace

TEST_CASE_FIXTURE(fixture, "a connection serves one request after the other")
{
    auto client = connect();
    for (int i = 0; i < 5; ++i) {
        auto const answer = client.ask(post("/orders", "hello"));
        CHECK(answer.status == 200);
        CHECK(answer.body == "POST /orders hello");
        CHECK(answer.has("Connection: keep-alive"));
        CHECK(answer.has("X-Content-Type-Options: nosniff"));
        CHECK(answer.has("Cache-Control: no-store"));
        CHECK(answer.has("Server: skald"));
        CHECK(answer.value_of("Date") != "");
    }
}

TEST_CASE_FIXTURE(fixture, "pipelined requests are answered in order")
{
    auto client = connect();
    std::string all;
    for (int i = 0; i < 20; ++i) all += post("/" + std::to_string(i), std::string(static_cast<std::size_t>(i) * 100, 'b'));
    client.send(all);
    for (int i = 0; i < 20; ++i)
        CHECK(client.read_answer().body ==
              "POST /" + std::to_string(i) + ' ' + std::string(static_cast<std::size_t>(i) * 100, 'b'));
}

TEST_CASE_FIXTURE(fixture, "Connection: close and HTTP/1.0 end the connection after the answer")
{
    for (auto const& bytes : {get("/a", "Connection: close\r\n"), std::string{"GET /a HTTP/1.0\r\n\r\n"}}) {
        auto client = connect();
        auto const answer = client.ask(bytes);
        CHECK(answer.body == "GET /a ");
        CHECK(answer.has("Connection: close"));
        CHECK(client.is_closed());
    }
    auto kept = connect();
    CHECK(kept.ask("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").has("Connection: keep-alive"));
    CHECK(kept.ask("GET /b HTTP/1.0\r\n\r\n").body == "GET /b ");
}

TEST_CASE_FIXTURE(fixture, "HEAD has the length of the body and not the body")
{
    auto client = connect();
    client.send("HEAD /abc HTTP/1.1\r\nHost: shop\r\n\r\n" + get("/next"));
    auto const head = client.read_answer(false);
    CHECK(head.status == 200);
    CHECK(head.value_of("Content-Length") == "10");
    CHECK(client.read_answer().body == "GET /next ");
}

TEST_CASE_FIXTURE(fixture, "204 has no body, no type and no length")
{
    auto client = connect();
    auto const answer = client.ask(get("/nothing"));
    CHECK(answer.status == 204);
    CHECK(answer.value_of("Content-Type") == "");
    CHECK(answer.value_of("Content-Length") == "");
    CHECK(client.ask(get("/next")).body == "GET /next ");
}

TEST_CASE_FIXTURE(fixture, "a client that expects 100 Continue is told to go on, or is refused before it sends")
{
    auto client = connect();
    client.send("POST /a HTTP/1.1\r\nHost: shop\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    CHECK(client.read_answer(false).status == 100);
    CHECK(client.ask("hello").body == "POST /a hello");

    client.send("POST /a HTTP/1.1\r\nHost: shop\r\nExpect: 100-continue\r\nContent-Length: 999999999\r\n\r\n");
    CHECK(client.read_answer().status == 413);
    CHECK(client.is_closed());
    CHECK(connect().ask(post("/a", "x", "Expect: tea\r\n")).status == 417);
}

TEST_CASE_FIXTURE(fixture, "a chunked body is read whole")
{
    auto client = connect();
    client.send("POST /a HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
    client.send("lo\r\n1;x=y\r\n!\r\n0\r\n");
    CHECK(client.ask("\r\n").body == "POST /a hello!");
    CHECK(client.ask(get("/next")).body == "GET /next ");
}

TEST_CASE_FIXTURE(fixture, "an ambiguous request is refused, and what follows it is never read as a request")
{
    std::string const hidden = get("/hidden");
    struct row { std::string bytes; int status; };
    for (auto const& [bytes, status] : {
             row{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400},
             row{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400},
             row{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
             row{"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
             row{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", 400},
             row{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400},
             row{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400},
             row{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0;a=\"\n\"\r\n\r\n", 400},
             row{"GET / HTTP/1.1\nHost: a\n\n", 400},
             row{"GET / HTTP/1.1\r\n\r\n", 400},
             row{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
             row{"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
             row{"POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 0\r\n\r\n", 400},
             row{"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
         }) {
        CAPTURE(bytes);
        auto client = connect();
        client.send(bytes + hidden + hidden);
        auto const answer = client.read_answer();
        CHECK(answer.status == status);
        CHECK(answer.has("Content-Type: application/problem+json"));
        CHECK(answer.has("Connection: close"));
        CHECK(client.is_closed());
    }
    CHECK(handled == 0);
}

TEST_CASE("the limits hold at their value and refuse one beyond")
{
    fixture on{{.request_line_bytes_max = 100, .header_bytes_max = 300, .header_count_max = 5, .body_bytes_max = 20}};
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

    struct row { std::string bytes; int status; };
    for (auto const& [bytes, status] :
         {row{line(101), 414}, row{fields(6), 431}, row{head(301), 431}, row{body(21), 413}}) {
        auto client = on.connect();
        CHECK(client.ask(bytes).status == status);
        CHECK(client.is_closed());
    }
}

TEST_CASE("a refused client that is still sending hears why")
{
    fixture on{{.body_bytes_max = 1000}};
    auto client = on.connect();
    // Far more than the sockets hold, so that the client still sends when the answer goes out.
    client.send(post("/", std::string(900'000, 'b')));
    CHECK(client.read_answer().status == 413);
}

TEST_CASE("a head or a body that takes too long is a 408 and the end of the connection")
{
    fixture on{{.header_time = 20ms, .body_time = 20ms}};
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
    fixture on{{.header_bytes_max = 1 << 30, .header_time = 50ms}};
    auto client = on.connect();
    client.send("GET / HTTP/1.1\r\nHost: shop\r\nX: ");
    std::jthread const dribble{[&](std::stop_token const& stop) {
        while (!stop.stop_requested() && client.send("x")) std::this_thread::yield();
    }};
    CHECK(client.read_answer().status == 408);
}

TEST_CASE("a connection without a request is closed without a word")
{
    fixture on{{.idle_time = 20ms}};
    CHECK(on.connect().is_closed());
    auto client = on.connect();
    CHECK(client.ask(get("/")).status == 200);
    CHECK(client.is_closed());
}

TEST_CASE("a client that doesn't read its answer is cut off")
{
    fixture on{{.write_time = 50ms, .lanes = 1}};
    auto client = on.connect(4096);
    client.send(get("/large"));
    CHECK(on.log.wait_for("http.client_too_slow"));
    CHECK(client.read_to_end().size() < 32 * 1024 * 1024);
    CHECK(on.connect().ask(get("/next")).status == 200);
}

TEST_CASE("when the lanes and the queue are full the answer is 503 at once, and /livez still answers")
{
    fixture on{{.lanes = 1, .waiting_max = 1}};
    auto running = on.connect();
    running.send(get("/hold"));
    on.held.wait_for(1);

    // Whichever of these two is read first waits; the other is told to come again.
    std::array<raw_client, 2> rivals{on.connect(), on.connect()};
    for (auto& rival : rivals) rival.send(get("/rival"));
    auto const turned_down = testing::first_with_answer(rivals);
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

TEST_CASE_FIXTURE(fixture, "an exception of a handler is a 500 that doesn't say what was thrown")
{
    auto client = connect();
    for (auto const* path : {"/throws", "/livez/throws"}) {
        auto const answer = client.ask(get(path));
        CHECK(answer.status == 500);
        CHECK(answer.has("Content-Type: application/problem+json"));
        CHECK(answer.body.find("secret") == std::string::npos);
        CHECK(log.wait_for("http.handler_failed"));
    }
    CHECK(client.ask(get("/next")).status == 200);
}

TEST_CASE_FIXTURE(fixture, "a header value with a line break is a 500, never a second header")
{
    auto client = connect();
    client.send(get("/splits", "Connection: close\r\n"));
    auto const all = client.read_to_end();
    CHECK(all.starts_with("HTTP/1.1 500 "));
    CHECK(all.find("Set-Cookie") == std::string::npos);
    CHECK(log.wait_for("http.answer_refused"));
}

TEST_CASE("beyond the number of connections a client is told 503 and closed")
{
    fixture on{{.connections_max = 2}};
    auto first = on.connect();
    auto second = on.connect();
    CHECK(first.ask(get("/")).status == 200);
    CHECK(second.ask(get("/")).status == 200);
    auto third = on.connect();
    auto const answer = third.read_answer();
    CHECK(answer.status == 503);
    CHECK(answer.has("Retry-After: 1"));
    CHECK(third.is_closed());

    CHECK(first.ask(get("/", "Connection: close\r\n")).status == 200);
    CHECK(first.is_closed());
    CHECK(on.connect().ask(get("/")).status == 200);
}

TEST_CASE("a client that is slow does not hold up another")
{
    fixture on{{.lanes = 1}};
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
        fixture on{{.lanes = 1}};
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

TEST_CASE_FIXTURE(fixture, "a client that closes its sending half still gets its answer")
{
    auto client = connect();
    client.send(get("/hold"));
    client.close_sending();
    held.wait_for(1);
    held.open();
    CHECK(client.read_answer().body == "GET /hold ");
    CHECK(client.is_closed());
}

TEST_CASE_FIXTURE(fixture, "drain closes idle connections and lets a running request finish")
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

TEST_CASE_FIXTURE(fixture, "drain lets a request that is half read finish")
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

TEST_CASE_FIXTURE(fixture, "drain says so when a request didn't finish in time")
{
    auto running = connect();
    running.send(get("/hold"));
    held.wait_for(1);
    CHECK_FALSE(service.drain(1ms));
    CHECK(running.is_closed());
    held.open();
}

TEST_CASE("a server that never started, or was never used, ends cleanly")
{
    core::silent_logger log;
    auto const handle = [](request&, std::size_t) { return text(""); };
    server unstarted{on_free_port(), handle, log};
    CHECK(unstarted.port() != 0);
    CHECK(unstarted.drain(0s));
    server unused{on_free_port(), handle, log};
    unused.start();
    CHECK(unused.address() == "127.0.0.1:" + std::to_string(unused.port()));
}

TEST_CASE("an address that can't be listened on is an error that names the setting")
{
    core::silent_logger log;
    auto const handle = [](request&, std::size_t) { return text(""); };
    server first{on_free_port(), handle, log};
    for (auto const& listen : {first.address(), std::string{"203.0.113.1:80"}, std::string{"127.0.0.1"}}) {
        CAPTURE(listen);
        server_options options;
        options.listen = listen;
        try {
            server second{options, handle, log};
            FAIL("listening");
        } catch (std::runtime_error const& e) {
            CHECK(std::string{e.what()}.starts_with("SKALD_HTTP_LISTEN (--listen) \"" + listen + "\" "));
        }
    }
    CHECK_THROWS_AS(server({.listen = "127.0.0.1:0", .lanes = 0}, handle, log), std::invalid_argument);
}

TEST_CASE("many clients at once each get their own answers")
{
    fixture on{{.lanes = 3}};
    constexpr int clients = 8;
    constexpr int requests = 50;
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int c = 0; c < clients; ++c)
        threads.emplace_back([&, c] {
            auto client = on.connect();
            for (int i = 0; i < requests; ++i) {
                auto const mark = std::to_string(c) + '-' + std::to_string(i);
                if (client.ask(post("/echo", mark)).body == "POST /echo " + mark) ++right;
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(right == clients * requests);
}
