#include <doctest/doctest.h>

#include "core/command.hpp"

#include <nlohmann/json.hpp>

#include <string>

using namespace skald::core;
using nlohmann::json;

namespace {

json pause_command()
{
    return {{"id", "3f2c1c5e-0d3b-4a57-8a8e-5d2a6ec8a001"},
            {"scope", ""},
            {"key", "order-1"},
            {"home", "orders"},
            {"action", "pause"},
            {"by", "eve as postgres"},
            {"requested_at", "2026-01-31T12:00:00.000000Z"}};
}

std::string why_not(std::string const& body)
{
    auto const read = read_command(body);
    auto const* bad = std::get_if<bad_command>(&read);
    return bad == nullptr ? "" : bad->why;
}

std::string why_not(json command, char const* member, json const& value)
{
    command[member] = value;
    return why_not(command.dump());
}

}  // namespace

TEST_CASE("a command is handed on with the members that are known, and no other")
{
    auto command = pause_command();
    command["reason"] = "looking";
    command["act"] = "orders/17";
    auto with_more = command;
    with_more["surprise"] = {1, 2};
    auto const read = read_command(with_more.dump());
    REQUIRE(std::holds_alternative<skald::core::command>(read));
    CHECK(json::parse(std::get<skald::core::command>(read).text) == command);
}

TEST_CASE("a member that is missing or malformed is named")
{
    for (auto const* name : {"id", "scope", "key", "home", "action", "by", "requested_at"}) {
        auto command = pause_command();
        command.erase(name);
        CHECK(why_not(command.dump()) == "the command's " + std::string{name} + " is missing or malformed");
        CHECK(why_not(pause_command(), name, 7) == "the command's " + std::string{name} + " is missing or malformed");
    }
    CHECK(why_not(pause_command(), "id", "3f2c1c5e-0d3b-4a57-8a8e-5d2a6ec8a00x") != "");
    CHECK(why_not(pause_command(), "id", "3f2c1c5e0d3b4a578a8e5d2a6ec8a0012345") != "");
    for (auto const* act : {"", "orders", "orders/", "Orders/1", "orders/x", "orders/12345678901234567890"})
        CHECK_MESSAGE(why_not(pause_command(), "act", act) != "", act);
    CHECK(why_not(pause_command(), "key", std::string(181, 'k')) != "");
    CHECK(why_not(pause_command(), "scope", std::string(65, 's')) != "");
    CHECK(why_not(pause_command(), "action", "stop") != "");
    CHECK(why_not(pause_command(), "reason", std::string(4'001, 'r')) != "");
    CHECK(why_not(pause_command(), "requested_at", "2026-01-31") != "");
}

TEST_CASE("a command to retry names its step, and no other does")
{
    CHECK(why_not(pause_command(), "action", "retry") ==
          "a command to retry names its step, and no other command does");
    CHECK(why_not(pause_command(), "step", "charge-payment") ==
          "a command to retry names its step, and no other command does");
    auto retry = pause_command();
    retry["action"] = "retry";
    CHECK(why_not(retry, "step", "charge-payment").empty());
    CHECK(why_not(retry, "step", "charge-payment.compensate").empty());
    for (auto const* step : {"", "Charge", "a:b", "charge.undo", "charge.compensate.compensate"})
        CHECK(why_not(retry, "step", step) != "");
}

TEST_CASE("a body that is no object, or no JSON, is refused")
{
    for (auto const* body : {"", "[]", "7", "{", R"({"id":1,"id":2})"}) CHECK(why_not(body) != "");
}
