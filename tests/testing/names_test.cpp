// What a test may name, and how what it finds is printed.
#include "shop.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace kit_test;
using skald::testing::crash_point;
using skald::testing::rows;

TEST_CASE("a name that no step has, and an end that none can have, are refused with those that there are")
{
    auto const made = make_shop();
    auto& shop = *made;
    auto const refused = [](auto const& act, char const* why) {
        CHECK_THROWS_WITH_AS(act(), doctest::Contains(why), std::invalid_argument);
    };
    refused([&] { shop.reject_at("arrange-shiping"); },
            "reject_at(\"arrange-shiping\"): no step of that name is hosted here; there is create-order, "
            "create-order.compensate, confirm-order, ");
    refused([&] { shop.reject_at("confirm-order"); },
            "only a compensatable step, a pivot or a message handler rejects");
    refused([&] { shop.reject_at("charge-payment.compensate"); }, "rejects, in its own transactions");
    refused([&] { shop.fail("charge"); }, "fail(\"charge\"): no step of that name");
    refused([&] { shop.refuse_call("charge-payment"); }, "refuse_call(\"charge-payment\"): no step of that name");
    refused([&] { static_cast<void>(shop.ran("charge", 0)); }, "ran(\"charge\"): no step of that name");
    auto const crash = [&](crash_point point, char const* name, char const* why) {
        refused([&] { shop.crash_at(point, name); }, why);
    };
    crash(crash_point::before_commit, "charge", "crash_at(crash before COMMIT, \"charge\"): no step of that name");
    crash(crash_point::after_call, "charge-payment", "that is a point of a call, and no call is named so");
    crash(crash_point::before_call, "", "that is a point of a call");
    crash(crash_point::after_step, "charge-payment.progress", "no step's code runs for a message of that name");
    crash(crash_point::before_claim, "charge-payment.progress", "nothing is claimed for a message of that name");
    crash(crash_point::after_claim, "control@payments", "nothing is claimed for a message of that name");
    crash(crash_point::before_publish, "charge-payment.settle", "the relay sends messages, and this is none");
    crash(crash_point::before_publish, "control@office", "no step of that name");
    for (auto const* const right : {"charge-payment", "charge-payment.compensate", "charge-payment.progress",
                                    "charge-payment.1.receipt", "control@payments", ""})
        shop.crash_at(crash_point::before_confirm, right);
}

TEST_CASE("what comes too late for a database that has been made is refused, and so is a second watch of one name")
{
    using skald::configuration_error;
    auto const made = make_shop();
    auto& shop = *made;
    auto const watched = [] { return std::vector<std::string>{}; };
    shop.watch({"mails", watched, {}});
    CHECK_THROWS_WITH_AS(shop.watch({"mails", watched, {}}), doctest::Contains("watch(\"mails\")"),
                         configuration_error);
    shop.rewind();
    CHECK_THROWS_WITH_AS(shop.given("payments", "SELECT 1"), doctest::Contains("given() for payments"),
                         configuration_error);
    CHECK_THROWS_WITH_AS(shop.add(only_tables("payments", "0002_more", "SELECT 1")),
                         doctest::Contains("add() of migrations for payments"), configuration_error);
    // A service that nobody has named yet gets its database with the next use.
    shop.add(only_tables("office", "0001_desk", "CREATE TABLE desk (id int)"));
    shop.deliver_all();
    CHECK(shop.ask("office", "SELECT * FROM desk").empty());
}

TEST_CASE("sagas of one key in two scopes are told apart")
{
    auto const made = make_shop();
    auto& shop = *made;
    for (auto const* const scope : {"north", "south"}) {
        auto o = pen();
        o.id = scope;
        shop.start(place_order, o, {.key = "k", .scope = scope});
    }
    shop.reject_at("arrange-shipping");
    CHECK(shop.saga_is("k", "running", "north"));
    CHECK_FALSE(shop.saga_is("k", "running"));
    shop.deliver_all();
    for (auto const* const scope : {"north", "south"}) {
        CHECK(shop.saga_is("k", "compensated", scope));
        CHECK(shop.applied_once("k", "charge-payment", scope));
    }
}

TEST_CASE("rows print as a check shows them")
{
    std::ostringstream text;
    text << rows{"o-1 | charge", "o-1 | refund"} << rows{};
    CHECK(text.str() == R"({"o-1 | charge", "o-1 | refund"}{})");
}

namespace {

struct parcel_note
{
    std::string id, text;
    bool operator==(parcel_note const&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel_note, id)

}  // namespace

TEST_CASE("data with a member that its macro lacks starts nothing, and proves nothing")
{
    constexpr auto deliver = skald::define("deliver", skald::pivot<parcel_note>{"hand-over", "shipping"});
    auto const shop = make_shop();
    auto const flaw = doctest::Contains("NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE");
    CHECK_THROWS_WITH_AS(static_cast<void>(shop->start(deliver, {"p-1", "fragile"})), flaw, skald::data_error);
    CHECK_THROWS_WITH_AS(static_cast<void>(shop->prove_exactly_once(deliver, {"p-1", "fragile"})), flaw,
                         skald::data_error);
}
