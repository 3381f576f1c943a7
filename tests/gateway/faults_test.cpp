// Each way in which the gateway misbehaves: what the client gets, and what was done all the same.
#include <doctest/doctest.h>

#include "gateway/gateway_process.hpp"

#include <algorithm>

using namespace skald::test;
using nlohmann::json;
using skald::testing::wait_until;

namespace {

constexpr int no_answer = 0;

/// A gateway that has died by itself runs again.
void restart_if_dead(gateway_process& gateway)
{
    if (gateway.process().is_running()) return;
    CHECK(gateway.process().ended()->signal == SIGKILL);
    gateway.start();
}

}  // namespace

TEST_CASE("a fault before acting does nothing, one after acting has charged; the next request finds out by its key")
{
    struct row
    {
        char const* fault;
        int status;
        bool acts;
        bool dies;
    };
    for (auto const& one : {row{"down", 503, false, false}, row{"error_before", 500, false, false},
                            row{"die_before", no_answer, false, true}, row{"slow 1", 201, true, false},
                            row{"error_after", 500, true, false}, row{"hang_up_after", no_answer, true, false},
                            row{"answer_late 1", 201, true, false}, row{"die_after", no_answer, true, true}}) {
        for (bool const by_header : {true, false}) {
            CAPTURE(one.fault);
            CAPTURE(by_header);
            gateway_process gateway;
            if (!by_header) gateway.plan(json{{"fault", one.fault}, {"next", 1}}.dump());
            auto const headers = with_key("k") + (by_header ? with_fault(one.fault) : "");
            CHECK(gateway.charge(charge_of(100), headers).status == one.status);
            if (one.dies) REQUIRE(wait_until([&] { return !gateway.process().is_running(); }));
            CHECK(gateway.process().is_running() == !one.dies);
            restart_if_dead(gateway);
            CHECK(gateway.charges().size() == (one.acts ? 1 : 0));
            CHECK(gateway.look_up()["pending"] == 0);
            auto const again = gateway.charge(charge_of(100), with_key("k"));
            CHECK(again.status == 201);
            CHECK(again.value_of("Idempotency-Replayed") == (one.acts ? "true" : ""));
            CHECK(gateway.charges().size() == 1);
        }
    }
}

TEST_CASE("a refund meets the same faults")
{
    gateway_process gateway;
    auto const id = json::parse(gateway.charge(charge_of(100)).body)["id"].get<std::string>();
    auto const refund = [&](std::string const& headers) {
        return gateway.ask("POST", "/charges/" + id + "/refund", "", headers).status;
    };
    CHECK(refund(with_key("a") + with_fault("die_before")) == no_answer);
    REQUIRE(wait_until([&] { return !gateway.process().is_running(); }));
    restart_if_dead(gateway);
    CHECK(gateway.charges()[0]["refunded"] == 0);
    CHECK(refund(with_key("a") + with_fault("die_after")) == no_answer);
    REQUIRE(wait_until([&] { return !gateway.process().is_running(); }));
    restart_if_dead(gateway);
    CHECK(gateway.charges()[0]["refunded"] == 100);
    CHECK(refund(with_key("a")) == 201);
    CHECK(gateway.charges()[0]["refunded"] == 100);
}

TEST_CASE("a late answer has charged, and comes when the client has gone")
{
    gateway_process gateway;
    raw_client client{gateway.port()};
    client.send(wire("POST", "/charges", charge_of(100), with_fault("answer_late")));
    REQUIRE(wait_until([&] { return gateway.charges().size() == 1; }));
    CHECK_FALSE(client.has_heard());
    client.close_sending();
    CHECK(client.read_answer().status == 201);
}

TEST_CASE("a plan befalls as many requests as it says, then none")
{
    gateway_process gateway;
    gateway.plan(R"({"fault": "error_before", "next": 2})");
    std::vector<int> statuses(4);
    for (auto& one : statuses) one = gateway.charge(charge_of(100)).status;
    CHECK(statuses == std::vector<int>{500, 500, 201, 201});
}

TEST_CASE("a plan without a number befalls all, until an empty one ends it")
{
    gateway_process gateway;
    gateway.plan(R"({"fault": "error_after"})");
    for (int i = 0; i < 5; ++i) CHECK(gateway.charge(charge_of(100)).status == 500);
    CHECK(gateway.charges().size() == 5);
    gateway.plan("{}");
    CHECK(gateway.charge(charge_of(100)).status == 201);
}

TEST_CASE("a share of the requests meets the fault, and the same ones each time")
{
    gateway_process gateway;
    auto const statuses = [&] {
        gateway.plan(R"({"fault": "error_before", "share": 0.25})");
        std::vector<int> all(200);
        for (auto& one : all) one = gateway.charge(charge_of(100)).status;
        return all;
    };
    auto const first = statuses();
    auto const failed = std::count(first.begin(), first.end(), 500);
    CHECK(failed > 25);
    CHECK(failed < 75);
    CHECK(statuses() == first);
    gateway.plan(R"({"fault": "error_before", "share": 0})");
    CHECK(gateway.charge(charge_of(100)).status == 201);
    gateway.plan(R"({"fault": "error_before", "share": 1})");
    CHECK(gateway.charge(charge_of(100)).status == 500);
}

TEST_CASE("down is for everything that is asked, other plans are for charges and refunds")
{
    gateway_process gateway;
    gateway.plan(R"({"fault": "error_before"})");
    CHECK(gateway.ask("GET", "/charges?reference=r").status == 200);
    CHECK(gateway.ask("GET", "/charges?reference=r", "", with_fault("error_before")).status == 500);
    gateway.plan(R"({"fault": "down"})");
    CHECK(gateway.ask("GET", "/charges?reference=r").status == 503);
    CHECK(gateway.ask("GET", "/charges").status == 503);
    CHECK(gateway.charge(charge_of(100)).status == 503);
    gateway.plan("{}");
    CHECK(gateway.charges().empty());
}

TEST_CASE("the host to listen on may be in brackets, as that of IPv6 has to be")
{
    gateway_process gateway{{"--listen", "[127.0.0.1]:0"}};
    CHECK(gateway.charge(charge_of(100)).status == 201);
}

TEST_CASE("down for a while is over by itself")
{
    gateway_process gateway;
    gateway.plan(R"({"fault": "down 3600000"})");
    CHECK(gateway.charge(charge_of(100)).status == 503);
    gateway.plan(R"({"fault": "down 1"})");
    CHECK(wait_until([&] { return gateway.charge(charge_of(100)).status == 201; }));
}

TEST_CASE("a fault that it does not know is refused, and nothing is done")
{
    gateway_process gateway;
    for (auto const* bad :
         {"nope", "slow", "slow x", "slow -1", "slow 1 1", "slow 99999999999", "die_after 5", " down"}) {
        CAPTURE(bad);
        CHECK(gateway.ask("PUT", "/faults", json{{"fault", bad}}.dump()).status == 400);
        if (bad[0] != ' ') CHECK(gateway.charge(charge_of(100), with_fault(bad)).status == 400);
    }
    CHECK(gateway.charge(charge_of(100), with_fault("\xff")).status == 400);
    for (auto const* bad : {"", "[1]", "7", R"({"next": 1})", R"({"fault": 5})", R"({"fault": "down", "share": 2})",
                            R"({"fault": "down", "next": "two"})"}) {
        CAPTURE(bad);
        CHECK(gateway.ask("PUT", "/faults", bad).status == 400);
    }
    CHECK(gateway.ask("GET", "/faults").status == 405);
    CHECK(gateway.charge(charge_of(100)).status == 201);
    CHECK(gateway.charges().size() == 1);
}
