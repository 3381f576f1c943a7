// Clients that leave, in every phase of a connection: nothing of them stays, and the next one is served.
#include <doctest/doctest.h>

#include <string>

#include <skald/testing/wait_until.hpp>

#include "support/live_server.hpp"

using namespace skald::test;
using skald::http::server_load;
using skald::testing::wait_until;

namespace {

struct phase
{
    char const* name;
    void (*enter)(live_server&, raw_client&);
};

constexpr char const* announcing = "POST /a HTTP/1.1\r\nHost: shop\r\nContent-Length: 5\r\n";

void hold_lane(live_server& on, raw_client& client)
{
    client.send(get("/hold"));
    on.held.wait_for(1);
}

bool reaches(live_server& on, server_load const& load)
{
    return wait_until([&] { return on.service.load() == load; });
}

constexpr phase phases[] = {
    {"before a request", [](live_server& on, raw_client&) { REQUIRE(reaches(on, {.connections = 1})); }},
    {"in the head",
     [](live_server& on, raw_client& client) {
         client.send("GET /a HTTP/1.1\r\nHost: sh");
         REQUIRE(reaches(on, {.connections = 1}));
     }},
    {"told to continue",
     [](live_server&, raw_client& client) {
         client.send(std::string{announcing} + "Expect: 100-continue\r\n\r\n");
         CHECK(client.read_answer(false).status == 100);
     }},
    {"in the body",
     [](live_server& on, raw_client& client) {
         client.send(std::string{announcing} + "\r\nhel");
         REQUIRE(reaches(on, {.connections = 1, .body_bytes = 3}));
     }},
    {"in a chunk",
     [](live_server& on, raw_client& client) {
         client.send("POST /a HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
         REQUIRE(wait_until([&] { return on.service.load().body_bytes > 0; }));
     }},
    {"between two requests", [](live_server&, raw_client& client) { CHECK(client.ask(get("/a")).status == 200); }},
    {"while the handler runs", hold_lane},
    {"while a better answer is waited for",
     [](live_server& on, raw_client& client) {
         client.send(get("/wait"));
         REQUIRE(wait_until([&] { return on.service.load().waits == 1; }));
     }},
    {"while a better answer is waited for, with the next request sent",
     [](live_server& on, raw_client& client) {
         client.send(get("/wait"));
         REQUIRE(wait_until([&] { return on.service.load().waits == 1; }));
         client.send(get("/next"));  // which nobody reads yet
     }},
    {"while the answer is written",
     [](live_server& on, raw_client& client) {
         client.send(get("/large"));
         REQUIRE(wait_until([&] { return on.handled == 1; }));
         REQUIRE(wait_until([&] { return client.has_heard(); }));
     }},
    {"between the answers to pipelined requests",
     [](live_server& on, raw_client& client) {
         client.send(get("/a") + get("/hold") + get("/b"));
         CHECK(client.read_answer().body == "GET /a ");
         on.held.wait_for(1);
     }},
    {"after a refusal, still sending",
     [](live_server&, raw_client& client) {
         client.send(post("/a", std::string(500'000, 'b')));
         CHECK(client.read_answer().status == 413);
     }},
};

}  // namespace

TEST_CASE("whenever a client leaves, its connection, its lane and its place to wait are free again")
{
    for (auto const& p : phases)
        for (bool const resets : {false, true}) {
            CAPTURE(std::string{p.name});
            CAPTURE(resets);
            // Every time is longer than the test waits: what ends, ends because the client left.
            live_server on{{.limits = {.body_bytes_max = 1'000,
                                       .header_time = 600s,
                                       .body_time = 600s,
                                       .write_time = 600s,
                                       .idle_time = 600s},
                            .lanes = 1,
                            .wait_max = 600s}};
            auto client = on.connect();
            p.enter(on, client);
            if (resets) client.reset();
            else client.close();
            on.held.open();
            CHECK(reaches(on, {}));
            CHECK(on.connect().ask(get("/next")).body == "GET /next ");
        }
}

TEST_CASE("a request that is in the queue when its client leaves is still served, and then nothing of it stays")
{
    for (bool const resets : {false, true}) {
        live_server on{{.limits = {.idle_time = 600s}, .lanes = 1}};
        auto running = on.connect();
        hold_lane(on, running);
        auto client = on.connect();
        client.send(get("/queued"));
        REQUIRE(reaches(on, {.connections = 2, .lanes_busy = 1, .queued = 1}));
        if (resets) client.reset();
        else client.close();
        on.held.open();
        CHECK(running.read_answer().status == 200);
        CHECK(reaches(on, {.connections = 1}));
        CHECK(on.handled == 2);
    }
}

TEST_CASE("a place to wait goes to the next as soon as its client has left")
{
    live_server on{{.limits = {.waits_max = 1}, .lanes = 1, .wait_max = 600s}};
    auto first = on.connect();
    first.send(get("/wait"));
    REQUIRE(wait_until([&] { return on.service.load().waits == 1; }));
    CHECK(on.connect().ask(get("/wait")).body == "not yet");
    first.close();
    REQUIRE(wait_until([&] { return on.service.load().waits == 0; }));
    auto second = on.connect();
    second.send(get("/wait"));
    REQUIRE(wait_until([&] { return on.service.load().waits == 1; }));
    on.ready = true;
    CHECK(second.read_answer().body == "GET /wait ");
}

TEST_CASE("who waits and has sent the next request already keeps waiting, and gets both answers in order")
{
    live_server on{{.lanes = 1, .wait_max = 600s}};
    auto client = on.connect();
    client.send(get("/wait"));
    REQUIRE(wait_until([&] { return on.service.load().waits == 1; }));
    client.send(get("/next"));
    auto const looks = on.handled.load();
    REQUIRE(wait_until([&] { return on.handled >= looks + 2; }));  // so it was asked whether it has left
    CHECK(on.service.load().waits == 1);
    on.ready = true;
    CHECK(client.read_answer().body == "GET /wait ");
    CHECK(client.read_answer().body == "GET /next ");
}

TEST_CASE("who waits and closes its sending half hears how it stands, and what it sent before is answered")
{
    live_server on{{.lanes = 1, .wait_max = 600s}};
    auto client = on.connect();
    client.send(get("/wait"));
    REQUIRE(wait_until([&] { return on.service.load().waits == 1; }));
    client.send(get("/next"));
    client.close_sending();
    CHECK(client.read_answer().body == "not yet");
    CHECK(client.read_answer().body == "GET /next ");
    CHECK(client.is_closed());
}
