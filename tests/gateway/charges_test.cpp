// The gateway when nothing is wrong with it: keys, refunds, look-ups, and what it refuses.
#include <doctest/doctest.h>

#include "gateway/gateway_process.hpp"

#include <latch>
#include <set>
#include <thread>

using namespace skald::test;
using nlohmann::json;
using skald::testing::wait_until;

TEST_CASE("a key charges once: the same request again gets the same answer, byte for byte")
{
    gateway_process gateway;
    auto const first = gateway.charge(charge_of(4'200), with_key("order-1"));
    CHECK(first.status == 201);
    CHECK(first.value_of("Idempotency-Replayed").empty());
    auto const said = json::parse(first.body);
    CHECK(said["amount"] == 4'200);
    CHECK(said["reference"] == "r");
    CHECK(said["status"] == "succeeded");
    for (int i = 0; i < 3; ++i) {
        auto const again = gateway.charge(charge_of(4'200), with_key("order-1"));
        CHECK(again.status == 201);
        CHECK(again.value_of("Idempotency-Replayed") == "true");
        CHECK(again.body == first.body);
    }
    CHECK(gateway.charges().size() == 1);
}

TEST_CASE("a key that was used for another request is refused, and neither charges nor refunds")
{
    gateway_process gateway;
    auto const id = json::parse(gateway.charge(charge_of(100), with_key("k")).body)["id"].get<std::string>();
    CHECK(gateway.charge(charge_of(101), with_key("k")).status == 422);
    CHECK(gateway.ask("POST", "/charges/" + id + "/refund", "", with_key("k")).status == 422);
    REQUIRE(gateway.charges().size() == 1);
    CHECK(gateway.charges()[0]["refunded"] == 0);
}

TEST_CASE("without a key, and where keys are ignored, every request charges")
{
    std::string headers;
    std::vector<std::string> options;
    SUBCASE("without a key") {}
    SUBCASE("keys are ignored")
    {
        options = {"--keys", "ignored"};
        headers = with_key("k");
    }
    gateway_process gateway{options};
    std::set<std::string> ids;
    for (int i = 0; i < 3; ++i) ids.insert(json::parse(gateway.charge(charge_of(100), headers).body)["id"]);
    CHECK(ids.size() == 3);
    CHECK(gateway.charges().size() == 3);
}

TEST_CASE("a refund is made once for a key, and as often as it is asked for with other keys")
{
    gateway_process gateway;
    auto const id = json::parse(gateway.charge(charge_of(500)).body)["id"].get<std::string>();
    auto const refund = [&](std::string const& body, std::string const& key) {
        return gateway.ask("POST", "/charges/" + id + "/refund", body, with_key(key));
    };
    auto const first = refund("", "undo");
    CHECK(first.status == 201);
    CHECK(json::parse(first.body)["charge"] == id);
    CHECK(json::parse(first.body)["amount"] == 500);
    CHECK(refund("", "undo").body == first.body);
    CHECK(gateway.charges()[0]["refunded"] == 500);
    CHECK(refund(R"({"amount": 100})", "undo-again").status == 201);
    CHECK(gateway.charges()[0]["refunded"] == 600);
}

TEST_CASE("it says what it charged under a reference, and nothing of other references")
{
    gateway_process gateway;
    auto const charged = json::parse(gateway.charge(charge_of(100, "a b/ä")).body);
    gateway.charge(charge_of(200, "other"));
    auto const found = gateway.look_up("a%20b%2F%c3%a4");
    REQUIRE(found["charges"].size() == 1);
    CHECK(found["charges"][0]["id"] == charged["id"]);
    CHECK(found["pending"] == 0);
    CHECK(gateway.look_up("nobody") == json{{"charges", json::array()}, {"pending", 0}});
}

TEST_CASE("one that can't be asked looks nothing up, but has its list")
{
    gateway_process gateway{{"--lookup", "off"}};
    gateway.charge(charge_of(100));
    CHECK(gateway.ask("GET", "/charges?reference=r").status == 404);
    CHECK(gateway.charges().size() == 1);
}

TEST_CASE("while a request is in progress its key is taken, and a look-up says that it may still charge")
{
    gateway_process gateway;
    raw_client first{gateway.port()};
    first.send(wire("POST", "/charges", charge_of(100), with_key("k") + with_fault("slow 3600000")));
    REQUIRE(wait_until([&] { return gateway.look_up()["pending"] == 1; }));
    CHECK(gateway.look_up()["charges"].empty());
    CHECK(gateway.charge(charge_of(100), with_key("k")).status == 409);
    CHECK(gateway.charges().empty());
    auto const id = json::parse(gateway.charge(charge_of(100, "other")).body)["id"].get<std::string>();
    CHECK(gateway.look_up("other")["pending"] == 0);
    raw_client refund{gateway.port()};
    refund.send(wire("POST", "/charges/" + id + "/refund", "", with_fault("slow 3600000")));
    CHECK(wait_until([&] { return gateway.look_up("other")["pending"] == 1; }));
}

TEST_CASE("a hundred requests with one key at the same time make one charge")
{
    gateway_process gateway;
    constexpr std::size_t many = 100;
    std::vector<raw_answer> answers(many);
    std::latch all{many};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < many; ++i) {
        threads.emplace_back([&, i] {
            raw_client client{gateway.port()};
            all.arrive_and_wait();
            // Slow, so that they are all there before one has acted.
            answers[i] = client.ask(wire("POST", "/charges", charge_of(100), with_key("k") + with_fault("slow 50")));
        });
    }
    for (auto& one : threads) one.join();
    int first = 0;
    std::set<std::string> bodies;
    for (auto const& one : answers) {
        CHECK((one.status == 201 || one.status == 409));
        if (one.status != 201) continue;
        bodies.insert(one.body);
        first += one.value_of("Idempotency-Replayed").empty() ? 1 : 0;
    }
    CHECK(first == 1);
    CHECK(bodies.size() == 1);
    CHECK(gateway.charges().size() == 1);
}

TEST_CASE("a request that is no charge and no refund is refused, and charges nothing")
{
    gateway_process gateway;
    struct bad
    {
        int status;
        char const* method;
        std::string target;
        std::string body;
    };
    for (auto const& one : std::vector<bad>{
             {400, "POST", "/charges", ""},
             {400, "POST", "/charges", "{"},
             {400, "POST", "/charges", "[]"},
             {400, "POST", "/charges", R"({"amount": 1, "currency": "EUR"})"},
             {400, "POST", "/charges", R"({"amount": "1", "currency": "EUR", "reference": "r"})"},
             {400, "POST", "/charges", R"({"amount": 1.5, "currency": "EUR", "reference": "r"})"},
             {400, "POST", "/charges", R"({"amount": 18446744073709551615, "currency": "EUR", "reference": "r"})"},
             {400, "POST", "/charges", R"({"amount": 1, "currency": "eur", "reference": "r"})"},
             {400, "POST", "/charges", "{\"amount\": 1, \"currency\": \"EUR\", \"reference\": \"\xff\"}"},
             {400, "POST", "/charges", charge_of(0)},
             {400, "POST", "/charges", charge_of(-1)},
             {400, "POST", "/charges", charge_of(1, "")},
             {400, "POST", "/charges", charge_of(1, std::string(256, 'r'))},
             {404, "POST", "/charges/ch_1/refund", ""},
             {404, "POST", "/elsewhere", ""},
             {405, "DELETE", "/charges", ""},
             {405, "GET", "/charges/ch_1/refund", ""},
             {400, "GET", "/charges?reference=%4", ""},
             {400, "GET", "/charges?reference=%zz", ""},
             {400, "GET", "/charges?page=2", ""},
         }) {
        CAPTURE(one.target);
        CAPTURE(one.body);
        CHECK(gateway.ask(one.method, one.target, one.body).status == one.status);
    }
    CHECK(gateway.charge(charge_of(1), with_key(std::string(256, 'k'))).status == 400);
    CHECK(gateway.charge(charge_of(1), with_key("\xff")).status == 400);
    CHECK(gateway.charges().empty());
}

TEST_CASE("what was declined or never charged is not refunded")
{
    gateway_process gateway;
    auto const refund = [&](std::string const& id, std::string const& body) {
        return gateway.ask("POST", "/charges/" + id + "/refund", body).status;
    };
    auto const declined = json::parse(gateway.charge(charge_of(1), with_fault("declined")).body);
    CHECK(declined["status"] == "declined");
    CHECK(refund(declined["id"], "") == 422);
    auto const charged = json::parse(gateway.charge(charge_of(100)).body);
    CHECK(refund(charged["id"], R"({"amount": 101})") == 422);
    CHECK(refund(charged["id"], R"({"amount": "1"})") == 400);
    CHECK(refund(charged["id"], "[]") == 400);
    for (auto const& one : gateway.charges()) CHECK(one["refunded"] == 0);
}
