// Calls that are undone by calls.
#include "external/bank.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace skald::test;

TEST_CASE("what a call did is undone by a call, with a key of its own and the data that the first one left")
{
    bank_services all;
    all.host();
    all.start(order_goods, purchase{"p", 2000}, "k");
    all.run_all();
    CHECK(all.gateway.charges == std::vector<std::string>{"k:charge"});
    CHECK(all.gateway.refunds == std::vector<std::string>{"k:charge.compensate of r-1"});
    CHECK(all.effects("till") == "prepare\nsettle r-1\nrefunded");
    CHECK(all.record("charge.compensate") == "completed|1");
    CHECK(all.saga_status("k") == "compensated");
}

TEST_CASE("a saga that goes through is not undone")
{
    bank_services all;
    all.host();
    all.start(order_goods, purchase{"p", 20}, "k");
    all.run_all();
    CHECK(all.gateway.refunds.empty());
    CHECK(all.saga_status("k") == "completed");
}

TEST_CASE("a cancel after the call: what happened is recorded, and then undone")
{
    bank_services all;
    all.host();
    all.gateway.after_charge = [&](auto const&) {
        all.at("shop").db.run("SELECT skald.request_control('cancel', '', 'k', 'too late')");
        throw std::runtime_error{"timed out"};
    };
    all.start(order_goods, purchase{"p", 20}, "k");
    all.run_all();
    all.at("till").make_started_due();
    all.run_all();
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.gateway.refunds.size() == 1);
    CHECK(all.saga_status("k") == "compensated");
}

TEST_CASE("the call that undoes a step of a cancelled saga is in doubt as any other")
{
    bank_services all;
    all.host();
    all.start(order_goods, purchase{"p", 20}, "k");
    all.run();
    CHECK(all.at("till").go_on());
    all.at("till").relay_due();  // on its way to the pivot
    all.at("shop").db.run("SELECT skald.request_control('cancel', '', 'k', 'too late')");
    all.run();
    REQUIRE(all.started() == "charge.compensate|f|0");
    CHECK(all.at("till").started().take("first", skald::ports::started_kind::call, "", 1).size() == 1);
    CHECK(all.started() == "charge.compensate|t|1");
    all.at("till").make_started_due();
    CHECK(all.at("till").started().take("second", skald::ports::started_kind::call, "", 1).at(0).was_in_doubt);
}
