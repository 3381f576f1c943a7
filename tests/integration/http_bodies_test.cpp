// Bodies on their way have a bound together, beyond which a client is told to come again and nothing of its body is
// read.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <skald/testing/wait_until.hpp>

#include "support/live_server.hpp"

using namespace skald::test;
using skald::testing::wait_until;

namespace {

constexpr std::size_t large = 100'000;

server_options room_for_two()
{
    return {.limits = {.body_bytes_max = large,
                       .bodies_bytes_max = 2 * large + large / 2,
                       .header_time = 600s,
                       .body_time = 600s,
                       .write_time = 600s,
                       .idle_time = 600s}};
}

std::string head_of(std::size_t size, std::string const& fields = {})
{
    auto const whole = post("/echo", std::string(size, 'b'), fields);
    return whole.substr(0, whole.size() - size);
}

bool holds(live_server& on, std::size_t bytes)
{
    return wait_until([&] { return on.service.load().body_bytes == bytes; });
}

void check_turned_down(raw_client& client)
{
    auto const answer = client.read_answer();
    CHECK(answer.status == 503);
    CHECK(answer.has("Retry-After: 1"));
    CHECK(answer.has("Connection: close"));
    CHECK(answer.has("Content-Type: application/problem+json"));
    CHECK(client.is_closed());
}

}  // namespace

TEST_CASE("slow bodies take no more than their room together; others are told 503, small ones and those before go on")
{
    live_server on{room_for_two()};
    std::vector<raw_client> slow;
    for (int i = 0; i < 2; ++i) {
        slow.push_back(on.connect());
        slow.back().send(head_of(large) + std::string(large - 1, 'b'));
    }
    REQUIRE(holds(on, 2 * (large - 1)));

    for (std::string const fields : {"", "Expect: 100-continue\r\n"}) {
        auto beyond = on.connect();
        beyond.send(head_of(large, fields));
        check_turned_down(beyond);
    }
    auto chunked = on.connect();
    chunked.send("POST /echo HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\nEA60\r\n" +
                 std::string(60'000, 'c'));
    check_turned_down(chunked);

    CHECK(on.connect().ask(post("/echo", "small")).body == "POST /echo small");
    for (auto& client : slow) CHECK(client.ask("b").status == 200);
    REQUIRE(holds(on, 0));
    CHECK(on.connect().ask(post("/echo", std::string(large, 'b'))).status == 200);
}

TEST_CASE("a body counts until its request is answered, or its client has left before it was whole")
{
    live_server on{room_for_two()};
    std::vector<raw_client> served;
    for (int i = 0; i < 2; ++i) {
        served.push_back(on.connect());
        served.back().send(post("/hold", std::string(large, 'b')));
    }
    on.held.wait_for(2);
    CHECK(on.service.load().body_bytes == 2 * large);
    auto beyond = on.connect();
    beyond.send(head_of(large));
    check_turned_down(beyond);
    on.held.open();
    for (auto& client : served) CHECK(client.read_answer().status == 200);
    REQUIRE(holds(on, 0));

    auto leaving = on.connect();
    leaving.send(head_of(large) + std::string(large / 2, 'b'));
    REQUIRE(holds(on, large / 2));
    leaving.close();
    CHECK(holds(on, 0));
}

TEST_CASE("a client that only says that it will send much takes no room from the others")
{
    live_server on{room_for_two()};
    std::vector<raw_client> saying;
    for (int i = 0; i < 20; ++i) {
        saying.push_back(on.connect());
        saying.back().send(head_of(large));
    }
    REQUIRE(wait_until([&] { return on.service.load().connections == saying.size(); }));
    CHECK(on.connect().ask(post("/echo", std::string(large, 'b'))).status == 200);
}
