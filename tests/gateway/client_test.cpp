// The example's client of the gateway: a receipt, or an exception that says whether it may have charged.
#include <doctest/doctest.h>

#include "examples/order_saga/gateway_client.hpp"
#include "gateway/gateway_process.hpp"

using namespace skald::test;
using namespace order_saga;
using namespace std::chrono_literals;
using nlohmann::json;
using skald::testing::wait_until;

namespace {

gateway_client client_of(std::uint16_t port, gateway_client::limits limits = {.connect = 30s, .whole_call = 30s})
{
    return gateway_client{{"127.0.0.1", std::to_string(port)}, limits};
}

/// Listens and never accepts, and what it can hold is there: who connects gets no answer, not even a refusal.
class deaf_listener
{
public:
    deaf_listener() : socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}
    {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        if (::bind(socket_, reinterpret_cast<sockaddr const*>(&at), size) != 0 || ::listen(socket_, 0) != 0 ||
            ::getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &size) != 0)
            throw std::runtime_error{"cannot listen"};
        port_ = ntohs(at.sin_port);
        first_.emplace_back(port_);
    }
    ~deaf_listener() { ::close(socket_); }
    deaf_listener(deaf_listener const&) = delete;
    deaf_listener& operator=(deaf_listener const&) = delete;

    std::uint16_t port() const { return port_; }

private:
    int socket_;
    std::uint16_t port_{};
    std::vector<raw_client> first_;
};

}  // namespace

TEST_CASE("it charges and refunds once for a key, and says what was charged under a reference")
{
    gateway_process gateway;
    auto const client = client_of(gateway.port());
    CHECK(client.charges_of("order 1/ä").empty());
    auto const charged = client.charge("k", "order 1/ä", 4'200);
    CHECK(charged.amount == 4'200);
    CHECK_FALSE(charged.declined);
    CHECK(client.charge("k", "order 1/ä", 4'200) == charged);
    auto const refunded = client.refund("undo", charged.id);
    CHECK(refunded.amount == 4'200);
    CHECK(client.refund("undo", charged.id) == refunded);
    auto const known = client.charges_of("order 1/ä");
    REQUIRE(known.size() == 1);
    CHECK(known[0].charge == charged);
    CHECK(known[0].refunded == 4'200);
    CHECK(json(charged).get<receipt>() == charged);
}

TEST_CASE("the gateway's no is a receipt")
{
    gateway_process gateway;
    gateway.plan(R"({"fault": "declined"})");
    CHECK(client_of(gateway.port()).charge("k", "r", 100).declined);
}

TEST_CASE("where nobody listens, and where nobody accepts, it surely did nothing")
{
    CHECK_THROWS_AS(client_of(skald::rig::find_free_port()).charge("k", "r", 100), surely_not_done);
    deaf_listener const deaf;
    CHECK_THROWS_WITH_AS(client_of(deaf.port(), {.connect = 20ms, .whole_call = 30s}).charge("k", "r", 100),
                         doctest::Contains("connecting to the gateway"), surely_not_done);
    CHECK_THROWS_AS(client_of(deaf.port(), {.connect = 30s, .whole_call = 20ms}).charge("k", "r", 100),
                    surely_not_done);
    CHECK_THROWS_AS(gateway_client({"no such host", "1"}).charge("k", "r", 100), surely_not_done);
}

TEST_CASE("a request that the gateway refuses surely did nothing")
{
    gateway_process gateway;
    auto const client = client_of(gateway.port());
    CHECK_THROWS_AS(client.charge("k", "r", 0), surely_not_done);
    CHECK_THROWS_AS(client.refund("k", "ch_1"), surely_not_done);
    client.charge("k", "r", 100);
    CHECK_THROWS_AS(client.charge("k", "r", 101), surely_not_done);
    CHECK(gateway.charges().size() == 1);
}

TEST_CASE("whatever the gateway did, without its answer it is perhaps done, and the same key finds out")
{
    for (auto const* fault : {"down", "error_before", "die_before", "error_after", "hang_up_after", "die_after"}) {
        CAPTURE(fault);
        gateway_process gateway;
        gateway.plan(json{{"fault", fault}, {"next", 1}}.dump());
        CHECK_THROWS_AS(client_of(gateway.port()).charge("k", "r", 100), perhaps_done);
        if (std::string_view{fault}.starts_with("die")) {
            REQUIRE(wait_until([&] { return !gateway.process().is_running(); }));
            gateway.start();
        }
        CHECK(client_of(gateway.port()).charge("k", "r", 100).amount == 100);
        CHECK(gateway.charges().size() == 1);
    }
}

TEST_CASE("no answer within the time for the whole call is perhaps done")
{
    gateway_process gateway;
    gateway.plan(R"({"fault": "answer_late", "next": 1})");
    CHECK_THROWS_AS(client_of(gateway.port(), {.connect = 30s, .whole_call = 1s}).charge("k", "r", 100), perhaps_done);
}

TEST_CASE("while the same request is in progress it is perhaps done, and so is what is looked up")
{
    gateway_process gateway;
    raw_client first{gateway.port()};
    first.send(wire("POST", "/charges", charge_of(100), with_key("k") + with_fault("slow 3600000")));
    REQUIRE(wait_until([&] { return gateway.look_up()["pending"] == 1; }));
    auto const client = client_of(gateway.port());
    CHECK_THROWS_AS(client.charge("k", "r", 100), perhaps_done);
    CHECK_THROWS_AS(client.charges_of("r"), perhaps_done);
    CHECK(client.charges_of("other").empty());
}

TEST_CASE("a look-up without an answer says nothing about what was charged")
{
    CHECK_THROWS_AS(client_of(skald::rig::find_free_port()).charges_of("r"), perhaps_done);
    gateway_process gateway{{"--lookup", "off"}};
    CHECK_THROWS_AS(client_of(gateway.port()).charges_of("r"), perhaps_done);
    gateway.plan(R"({"fault": "down"})");
    CHECK_THROWS_AS(client_of(gateway.port()).charges_of("r"), perhaps_done);
}

TEST_CASE("an address is HOST:PORT")
{
    CHECK(parse_gateway_address("gateway.example:8080").host == "gateway.example");
    CHECK(parse_gateway_address("127.0.0.1:80").port == "80");
    for (auto const* bad : {"", "gateway", ":80", "gateway:"}) {
        CAPTURE(bad);
        CHECK_THROWS_AS(parse_gateway_address(bad), std::invalid_argument);
    }
}
