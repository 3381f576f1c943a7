// The server on a real port, with raw sockets against it: what is asked and what is answered.
#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/live_server.hpp"

using namespace skald;
using namespace skald::http;
using namespace skald::test;

TEST_CASE_FIXTURE(live_server, "a connection serves one request after the other")
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

TEST_CASE_FIXTURE(live_server, "pipelined requests are answered in order")
{
    auto client = connect();
    std::string all;
    for (std::size_t i = 0; i < 20; ++i) all += post("/" + std::to_string(i), std::string(i * 100, 'b'));
    client.send(all);
    for (std::size_t i = 0; i < 20; ++i)
        CHECK(client.read_answer().body == "POST /" + std::to_string(i) + ' ' + std::string(i * 100, 'b'));
}

TEST_CASE_FIXTURE(live_server, "Connection: close and HTTP/1.0 end the connection after the answer")
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

TEST_CASE_FIXTURE(live_server, "HEAD has the length of the body and not the body")
{
    auto client = connect();
    client.send("HEAD /abc HTTP/1.1\r\nHost: shop\r\n\r\n" + get("/next"));
    auto const head = client.read_answer(false);
    CHECK(head.status == 200);
    CHECK(head.value_of("Content-Length") == "10");
    CHECK(client.read_answer().body == "GET /next ");
}

TEST_CASE_FIXTURE(live_server, "204 has no body, no type and no length")
{
    auto client = connect();
    auto const answer = client.ask(get("/nothing"));
    CHECK(answer.status == 204);
    CHECK(answer.value_of("Content-Type") == "");
    CHECK(answer.value_of("Content-Length") == "");
    CHECK(client.ask(get("/next")).body == "GET /next ");
}

TEST_CASE_FIXTURE(live_server, "a client that expects 100 Continue is told to go on, or is refused before it sends")
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

TEST_CASE_FIXTURE(live_server, "a chunked body is read whole")
{
    auto client = connect();
    client.send("POST /a HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
    client.send("lo\r\n1;x=y\r\n!\r\n0\r\n");
    CHECK(client.ask("\r\n").body == "POST /a hello!");
    CHECK(client.ask(get("/next")).body == "GET /next ");
}

TEST_CASE_FIXTURE(live_server, "an exception of a handler is a 500 that doesn't say what was thrown")
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

TEST_CASE_FIXTURE(live_server, "a header value with a line break is a 500, never a second header")
{
    auto client = connect();
    client.send(get("/splits", "Connection: close\r\n"));
    auto const all = client.read_to_end();
    CHECK(all.starts_with("HTTP/1.1 500 "));
    CHECK(all.find("Set-Cookie") == std::string::npos);
    CHECK(log.wait_for("http.response_refused"));
}

TEST_CASE_FIXTURE(live_server, "a client that closes its sending half still gets its answer")
{
    auto client = connect();
    client.send(get("/hold"));
    client.close_sending();
    held.wait_for(1);
    held.open();
    CHECK(client.read_answer().body == "GET /hold ");
    CHECK(client.is_closed());
}

TEST_CASE("a server that never started, or was never used, ends cleanly")
{
    core::silent_logger log;
    auto const handle = [](received&, std::size_t) { return text(""); };
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
    auto const handle = [](received&, std::size_t) { return text(""); };
    server first{on_free_port(), handle, log};
    for (auto const& listen : {first.address(), std::string{"203.0.113.1:80"}, std::string{"127.0.0.1"}}) {
        CAPTURE(listen);
        server_options options;
        options.listen = listen;
        try {
            server second{options, handle, log};
            FAIL("listening");
        }
        catch (std::runtime_error const& e) {
            CHECK(std::string{e.what()}.starts_with("SKALD_HTTP_LISTEN (--listen) \"" + listen + "\" "));
        }
    }
    CHECK_THROWS_AS(server({.listen = "127.0.0.1:0", .lanes = 0}, handle, log), std::invalid_argument);
}

TEST_CASE("an address that may be there later is told from one that is wrong")
{
    core::silent_logger log;
    auto const handle = [](received&, std::size_t) { return text(""); };
    server first{on_free_port(), handle, log};
    for (auto const& listen :
         {first.address(), std::string{"203.0.113.1:80"}, std::string{"no-such-host.invalid:80"}}) {
        CAPTURE(listen);
        server_options options;
        options.listen = listen;
        CHECK_THROWS_AS(server(options, handle, log), address_unavailable);
    }
}

TEST_CASE("many clients at once each get their own answers")
{
    live_server on{{.lanes = 3}};
    check_that_each_client_gets_its_own_answers(on, 0);
}
