#include <doctest/doctest.h>

#include "core/control_order.hpp"

#include <nlohmann/json.hpp>

#include <string>

using namespace skald::core;
using nlohmann::json;

namespace {

json pause_order()
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
    auto const read = read_control_order(body);
    auto const* bad = std::get_if<bad_order>(&read);
    return bad == nullptr ? "" : bad->why;
}

std::string why_not(json order, char const* member, json const& value)
{
    order[member] = value;
    return why_not(order.dump());
}

}  // namespace

TEST_CASE("an order is handed on with the members that are known, and no other")
{
    auto order = pause_order();
    order["reason"] = "looking";
    auto with_more = order;
    with_more["surprise"] = {1, 2};
    auto const read = read_control_order(with_more.dump());
    REQUIRE(std::holds_alternative<control_order>(read));
    CHECK(json::parse(std::get<control_order>(read).text) == order);
}

TEST_CASE("a member that is missing or malformed is named")
{
    for (auto const* name : {"id", "scope", "key", "home", "action", "by", "requested_at"}) {
        auto order = pause_order();
        order.erase(name);
        CHECK(why_not(order.dump()) == "the order's " + std::string{name} + " is missing or malformed");
        CHECK(why_not(pause_order(), name, 7) == "the order's " + std::string{name} + " is missing or malformed");
    }
    CHECK(why_not(pause_order(), "id", "3f2c1c5e-0d3b-4a57-8a8e-5d2a6ec8a00x") != "");
    CHECK(why_not(pause_order(), "id", "3f2c1c5e0d3b4a578a8e5d2a6ec8a0012345") != "");
    CHECK(why_not(pause_order(), "key", std::string(181, 'k')) != "");
    CHECK(why_not(pause_order(), "scope", std::string(65, 's')) != "");
    CHECK(why_not(pause_order(), "action", "stop") != "");
    CHECK(why_not(pause_order(), "reason", std::string(4'001, 'r')) != "");
    CHECK(why_not(pause_order(), "requested_at", "2026-01-31") != "");
}

TEST_CASE("an order to retry names its step, and no other does")
{
    CHECK(why_not(pause_order(), "action", "retry") == "an order to retry names its step, and no other order does");
    CHECK(why_not(pause_order(), "step", "charge-payment") ==
          "an order to retry names its step, and no other order does");
    auto retry = pause_order();
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
