// What the gateway answered is on disk: after a death at any moment, and in spite of half a line at the end.
#include <doctest/doctest.h>

#include "gateway/gateway_process.hpp"

#include <atomic>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

using namespace skald::test;
using nlohmann::json;
using skald::testing::wait_until;

namespace {

std::string contents(std::filesystem::path const& file)
{
    std::ifstream in{file, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
}

void append(std::filesystem::path const& file, std::string const& text)
{
    std::ofstream{file, std::ios::app | std::ios::binary} << text;
}

}  // namespace

TEST_CASE("a replay after a death is the first answer, byte for byte, and the same charges are listed")
{
    gateway_process gateway;
    auto const charged = gateway.charge(charge_of(100), with_key("k"));
    auto const id = json::parse(charged.body)["id"].get<std::string>();
    auto const refund = [&] { return gateway.ask("POST", "/charges/" + id + "/refund", "", with_key("undo")); };
    auto const refunded = refund();
    gateway.charge(charge_of(200), with_fault("declined"));
    auto const list = gateway.ask("GET", "/charges").body;
    gateway.kill_and_restart();
    auto const again = gateway.charge(charge_of(100), with_key("k"));
    CHECK(again.body == charged.body);
    CHECK(again.value_of("Idempotency-Replayed") == "true");
    CHECK(refund().body == refunded.body);
    CHECK(gateway.charge(charge_of(101), with_key("k")).status == 422);
    CHECK(gateway.ask("GET", "/charges").body == list);
}

TEST_CASE("killed while ten clients charge, it has all that it answered, and charges nothing twice")
{
    gateway_process gateway;
    constexpr int clients = 10;
    std::vector<std::map<std::string, std::string>> answered(clients);  // by key
    std::vector<int> asked(clients);
    std::atomic<int> count{0};
    std::vector<std::thread> threads;
    for (int c = 0; c < clients; ++c) {
        threads.emplace_back([&, c] {
            try {
                raw_client client{gateway.port()};
                for (;;) {
                    auto const key = std::to_string(c) + '-' + std::to_string(asked[c]++);
                    auto const got = client.ask(wire("POST", "/charges", charge_of(100, key), with_key(key)));
                    if (got.status != 201) return;
                    answered[c][key] = got.body;
                    ++count;
                }
            }
            catch (std::exception const&) {
                // The gateway was dead before this client had connected.
            }
        });
    }
    bool const charged = wait_until([&] { return count >= 100; });
    gateway.process().kill();
    for (auto& one : threads) one.join();
    REQUIRE(charged);
    gateway.start();

    std::size_t known = 0;
    for (int c = 0; c < clients; ++c) {
        for (int i = 0; i < asked[c]; ++i) {
            auto const key = std::to_string(c) + '-' + std::to_string(i);
            auto const got = gateway.charge(charge_of(100, key), with_key(key));
            CHECK(got.status == 201);
            if (answered[c].contains(key)) CHECK(got.body == answered[c][key]);
            CHECK(gateway.look_up(key)["charges"].size() == 1);
            ++known;
        }
    }
    CHECK(gateway.charges().size() == known);
}

TEST_CASE("half a line at the end of the ledger is cut off, and what follows is written after a whole one")
{
    gateway_process gateway;
    gateway.charge(charge_of(100), with_key("k"));
    gateway.process().kill();
    auto const whole = contents(gateway.ledger());
    for (std::size_t size = 1; size < whole.size(); size += whole.size() / 4) {
        CAPTURE(size);
        append(gateway.ledger(), whole.substr(0, size));
        gateway.start();
        CHECK(gateway.process().has_logged("cut off " + std::to_string(size) + " bytes"));
        CHECK(contents(gateway.ledger()) == whole);
        gateway.process().kill();
    }
    INFO("a line without its end was not answered either");
    append(gateway.ledger(), whole.substr(0, whole.size() - 1));
    gateway.start();
    CHECK(gateway.charge(charge_of(200)).status == 201);
    gateway.kill_and_restart();
    CHECK(gateway.charges().size() == 2);
}

TEST_CASE("a ledger with a line that is no entry is refused: what was told to somebody must not be forgotten")
{
    gateway_process gateway;
    gateway.charge(charge_of(100));
    gateway.process().kill();
    auto const whole = contents(gateway.ledger());
    for (auto const* bad : {"garbage\n", "[]\n", "{}\n", "\n"}) {
        CAPTURE(bad);
        std::ofstream{gateway.ledger(), std::ios::binary} << whole << bad << whole;
        CHECK(gateway.process().run().code == 1);
        CHECK(gateway.process().has_logged("line 2 is no entry"));
    }
}

TEST_CASE("what can't be synced to the disk is not answered: the process ends")
{
    // It takes what is written, and can't be synced.
    skald::rig::process gateway{{.program = SKALD_GATEWAY, .arguments = {"--ledger", "/dev/null"}}};
    gateway.start();
    REQUIRE(wait_until([&] { return gateway.http_port() != 0; }));
    CHECK(raw_client{gateway.http_port()}.ask(wire("POST", "/charges", charge_of(100), "")).status == 0);
    CHECK(gateway.wait().code == 1);
    CHECK(gateway.has_logged("writing the ledger"));
}

TEST_CASE("two gateways do not share a ledger, and one that died leaves it to the next")
{
    gateway_process gateway;
    skald::rig::process second{{.program = SKALD_GATEWAY, .arguments = {"--ledger", gateway.ledger().string()}}};
    CHECK(second.run().code == 1);
    CHECK(second.has_logged("another gateway uses this ledger"));
    gateway.process().kill();
    second.start();
    CHECK(wait_until([&] { return second.http_port() != 0; }));
}

TEST_CASE("it writes its address to a file, ends on SIGTERM, and says what is wrong with its options")
{
    gateway_process gateway;
    REQUIRE(wait_until([&] { return std::filesystem::exists(gateway.address_file()); }));
    CHECK(contents(gateway.address_file()) == "127.0.0.1:" + std::to_string(gateway.port()) + '\n');
    gateway.charge(charge_of(100));
    CHECK(gateway.process().terminate().code == 0);
    gateway.start();
    CHECK(gateway.charges().size() == 1);

    auto const ends_with = [](std::vector<std::string> arguments) {
        return skald::rig::process{{.program = SKALD_GATEWAY, .arguments = std::move(arguments)}}.run().code;
    };
    CHECK(ends_with({}) == 2);
    CHECK(ends_with({"--ledger", "/nowhere/at/all"}) == 1);
    CHECK(ends_with({"--ledger", "/dev/null", "--listen", "here"}) == 1);
    CHECK(ends_with({"--ledger", "/dev/null", "--keys", "some"}) == 2);
}
