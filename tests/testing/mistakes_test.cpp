// Steps that are wrong, each in one way: the kit finds every one of them, and says what is wrong with it.
#include "mistakes/commit_inside.hpp"
#include "mistakes/counter_in_memory.hpp"
#include "mistakes/effect_outside.hpp"
#include "mistakes/half_done_compensation.hpp"
#include "mistakes/own_transaction.hpp"
#include "mistakes/published_directly.hpp"
#include "mistakes/swallowed_error.hpp"
#include "mistakes/time_dependent.hpp"

#include <doctest/doctest.h>

using namespace kit_test;

namespace {

bool has(std::string const& text, std::string const& part)
{
    return text.find(part) != std::string::npos;
}

/// The order example with another step that charges.
struct broken_shop
{
    broken_shop()
    {
        furnish(shop);
        shop.host(place_order, steps::create_order, create_order{});
        shop.host(place_order, steps::arrange_shipping, arrange_shipping{});
        shop.host(place_order, steps::confirm_order, confirm_order{});
    }

    template <class Step>
    skald::testing::proof prove()
    {
        return prove(Step{[this] { return shop.database_url("payments"); }});
    }

    template <class Step>
    skald::testing::proof prove(Step step)
    {
        shop.host(place_order, steps::charge_payment, std::move(step));
        auto const proof = shop.prove_exactly_once(place_order, pen());
        INFO(proof.report());
        CHECK_FALSE(proof);
        CHECK_FALSE(proof.failed_schedule().empty());
        CHECK(proof.failed_schedule().find(';') == proof.failed_schedule().rfind(';'));  // nothing shorter shows it
        CHECK(has(proof.report(), "SKALD_TESTING_ONLY='" + proof.failed_schedule() + "'"));
        MESSAGE(proof.report());
        return proof;
    }

    skald::testing::harness shop;
};

}  // namespace

TEST_CASE_FIXTURE(broken_shop, "an effect on a connection of the step's own is found")
{
    auto const proof = prove<mistakes::effect_outside>();
    CHECK(has(proof.cause(), "the step charge-payment made its effect outside its transaction"));
    CHECK(has(proof.cause(), "{\"cents\": 900, \"customer\": \"ann\"}"));
    CHECK(has(proof.difference(), "payments: wallet"));
}

TEST_CASE_FIXTURE(broken_shop, "an effect in a transaction of the step's own is found")
{
    auto const proof = prove<mistakes::own_transaction>();
    CHECK(has(proof.cause(), "the step charge-payment made its effect outside its transaction"));
}

TEST_CASE_FIXTURE(broken_shop, "a step that runs COMMIT is found")
{
    auto const proof = prove<mistakes::commit_inside>();
    CHECK(proof.failed_schedule() == "forward");
    CHECK(has(proof.cause(), "the step charge-payment ran COMMIT or ROLLBACK itself"));
}

TEST_CASE_FIXTURE(broken_shop, "a step that swallows an SQL error is found")
{
    auto const proof = prove<mistakes::swallowed_error>();
    CHECK(proof.failed_schedule() == "forward");
    CHECK(has(proof.cause(), "the step charge-payment went on after an SQL error"));
}

TEST_CASE_FIXTURE(broken_shop, "a compensation that does it twice where it was half done is found")
{
    auto const proof = prove<mistakes::half_done_compensation>();
    CHECK(has(proof.failed_schedule(), "reject arrange-shipping"));
    CHECK(has(proof.cause(), "the compensation charge-payment.compensate made its effect outside its transaction"));
    CHECK(has(proof.cause(), "half done"));
}

TEST_CASE_FIXTURE(broken_shop, "a counter in memory is found")
{
    auto const proof = prove<mistakes::counter_in_memory>();
    CHECK(proof.failed_schedule() == "forward");
    CHECK(has(proof.cause(), "something that the process remembers from run to run (a counter, a cache)"));
    CHECK(has(proof.difference(), "o-1/2"));
}

TEST_CASE_FIXTURE(broken_shop, "an effect that depends on the time is found")
{
    auto const proof = prove<mistakes::time_dependent>();
    CHECK(has(proof.cause(), "depends on the time at which it runs"));
}

TEST_CASE_FIXTURE(broken_shop, "a message that a step publishes by itself is found")
{
    auto const sent = std::make_shared<mistakes::broker>();
    shop.watch({"messages", [sent] { return *sent; }, [sent] { sent->clear(); }});
    auto const proof = prove(mistakes::published_directly{sent});
    CHECK(has(proof.cause(), "the step charge-payment told somebody else before its transaction was committed"));
    CHECK(has(proof.cause(), "outside: messages"));
    CHECK(has(proof.cause(), "ctx.publish()"));
}
