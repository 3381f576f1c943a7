// A step that leaves something of its session behind: the proof finds it, and says what, and what to do instead.
#include "mistakes/session_left.hpp"
#include "shop.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace kit_test;

namespace {

// A harness for each, since what a step does to its session may concern its databases too.
skald::testing::proof prove(std::string const& execute, std::string const& compensate, std::string only)
{
    constexpr auto two = skald::define("two", steps::charge_payment, steps::arrange_shipping);
    skald::testing::harness shop;
    furnish(shop);
    shop.add(charging_with(two, mistakes::session_left{execute, compensate})).add(arranging(two));
    return shop.prove_exactly_once(two, pen(), {.remains = {{"payments", "charge"}}, .only = std::move(only)});
}

}  // namespace

TEST_CASE("whatever a step leaves in its session is found, named, and what to do instead is said")
{
    struct one
    {
        std::string does, named, instead;
    };
    for (auto const& s : {one{"SELECT pg_advisory_lock(42)", "advisory lock 42", "pg_advisory_xact_lock"},
                          one{"SET lock_timeout = '1s'", "setting lock_timeout", "SET LOCAL"},
                          one{"CREATE TEMP TABLE mine (n int)", "temporary table mine", "ON COMMIT DROP"},
                          one{"PREPARE mine AS SELECT 1", "prepared statement mine", "ctx.sql"},
                          one{"LISTEN mine", "channel mine", "a connection of your own"},
                          one{"DECLARE mine CURSOR WITH HOLD FOR SELECT 1", "cursor mine", "no WITH HOLD"}}) {
        CAPTURE(s.does);
        auto const forward = prove(s.does, "SELECT 1", "forward");
        INFO(forward.report());
        CHECK_FALSE(forward);
        CHECK(forward.failed_schedule() == "forward");
        CHECK(forward.report().find("a step leaves something of its session behind") != std::string::npos);
        CHECK(forward.cause().starts_with("the step charge-payment left behind in its session: " + s.named +
                                          " (instead: "));
        CHECK(forward.cause().find(s.instead) != std::string::npos);
    }
}

TEST_CASE("what a compensation leaves in its session is found")
{
    auto const back = prove("SELECT 1", "SET search_path = public", "reject arrange-shipping");
    CHECK_FALSE(back);
    CHECK(back.failed_schedule() == "reject arrange-shipping");
    CHECK(
        back.cause().starts_with("the step charge-payment.compensate left behind in its session: setting search_path"));
}

TEST_CASE("what ends with the transaction is no step's leftover")
{
    auto const local =
        "SET LOCAL lock_timeout = '1s'; SELECT pg_advisory_xact_lock(42), set_config('app.tenant', '7', true);"
        "CREATE TEMP TABLE mine (n int) ON COMMIT DROP; DECLARE mine_too CURSOR FOR SELECT 1";
    auto const proof = prove(local, local, "reject arrange-shipping; deliver charge-payment twice");
    INFO(proof.report());
    CHECK(proof);
}
