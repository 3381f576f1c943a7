// Steps that are wrong, each in one way: the kit finds every one of them, and says what is wrong with it.
#include "mistakes/commit_inside.hpp"
#include "mistakes/counter_in_memory.hpp"
#include "mistakes/effect_outside.hpp"
#include "mistakes/half_done_compensation.hpp"
#include "mistakes/own_transaction.hpp"
#include "mistakes/published_directly.hpp"
#include "mistakes/remembered_in_memory.hpp"
#include "mistakes/swallowed_error.hpp"
#include "mistakes/time_dependent.hpp"

#include <doctest/doctest.h>

using namespace kit_test;

namespace {

// One harness for all, since its databases take longest; the order example's definition once for each
// mistake, under a name of its own.
skald::testing::harness& shop_with_mistakes()
{
    static skald::testing::harness made;
    static bool const furnished = (furnish(made), true);
    static_cast<void>(furnished);
    return made;
}

template <class Definition, class Step>
skald::testing::proof prove(Definition const& saga, Step step)
{
    skald::service orders{"orders"};
    orders.host(saga, steps::create_order, create_order{}).host(saga, steps::confirm_order, confirm_order{});
    shop_with_mistakes()
        .add(std::move(orders))
        .add([saga, step] { return charging_with(saga, step); })
        .add(arranging(saga));
    auto const proof = shop_with_mistakes().prove_exactly_once(
        saga, pen(), {.remains = {{"orders", "customer_order"}, {"payments", "charge"}}});
    INFO(proof.report());
    CHECK_FALSE(proof);
    CHECK_FALSE(proof.failed_schedule().empty());
    CHECK(proof.failed_schedule().find(';') == proof.failed_schedule().rfind(';'));  // nothing shorter shows it
    CHECK(has(proof.report(), "SKALD_TESTING_ONLY='" + proof.failed_schedule() + "'"));
    return proof;
}

std::string payments_url()
{
    return shop_with_mistakes().database_url("payments");
}

// Under another name, which is all that differs.
consteval auto named(std::string_view name)
{
    return skald::define(name, steps::create_order, steps::charge_payment, steps::arrange_shipping,
                         steps::confirm_order);
}

}  // namespace

TEST_CASE("an effect on a connection of the step's own is found")
{
    auto const proof = prove(named("effect-outside"), mistakes::effect_outside{payments_url});
    CHECK(has(proof.cause(), "the step charge-payment made its effect outside its transaction"));
    CHECK(has(proof.cause(), "{\"cents\": 900, \"customer\": \"ann\"}"));
    CHECK(has(proof.difference(), "payments: wallet"));
}

TEST_CASE("an effect outside the transaction is found where it does the same each time, which no schedule shows")
{
    struct confirm_outside final : skald::retriable_step<order>
    {
        explicit confirm_outside(skald::testing::harness& shop) : at{shop} {}
        skald::forward_outcome execute(skald::step_context&, order&) const override
        {
            pqxx::connection own{at.database_url("orders")};
            pqxx::nontransaction{own}.exec("UPDATE flag SET is_set = true");
            return skald::done();
        }
        skald::testing::harness& at;
    };
    constexpr auto confirming = skald::define("confirming", steps::confirm_order);
    skald::testing::harness shop;
    skald::service orders{"orders"};
    orders.migrate("0001_flag", "CREATE TABLE flag (is_set boolean)")
        .host(confirming, steps::confirm_order, confirm_outside{shop});
    shop.add(std::move(orders)).given("orders", "INSERT INTO flag VALUES (false)");
    auto const proof = shop.prove_exactly_once(confirming, pen(), {.quick = true});
    INFO(proof.report());
    CHECK_FALSE(proof);
    CHECK(proof.failed_schedule() == "forward");
    CHECK(has(proof.cause(), "the step confirm-order made its effect outside its transaction"));
    CHECK(has(proof.cause(), "{\"is_set\": true}"));
    CHECK_FALSE(shop.prove_exactly_once(confirming, pen(), {.only = "forward"}));
}

TEST_CASE("an effect in a transaction of the step's own is found")
{
    auto const proof = prove(named("own-transaction"), mistakes::own_transaction{payments_url});
    CHECK(has(proof.cause(), "the step charge-payment made its effect outside its transaction"));
}

TEST_CASE("a step that runs COMMIT is found")
{
    auto const proof = prove(named("commit-inside"), mistakes::commit_inside{payments_url});
    CHECK(proof.failed_schedule() == "forward");
    CHECK(has(proof.cause(), "the step charge-payment ran COMMIT or ROLLBACK itself"));
}

TEST_CASE("a step that swallows an SQL error is found")
{
    auto const proof = prove(named("swallowed-error"), mistakes::swallowed_error{payments_url});
    CHECK(proof.failed_schedule() == "forward");
    CHECK(has(proof.cause(), "the step charge-payment went on after an SQL error"));
}

TEST_CASE("a compensation that does it twice where it was half done is found")
{
    auto const proof = prove(named("half-done-compensation"), mistakes::half_done_compensation{payments_url});
    CHECK(has(proof.failed_schedule(), "reject arrange-shipping"));
    CHECK(has(proof.cause(), "the compensation charge-payment.compensate made its effect outside its transaction"));
    CHECK(has(proof.cause(), "half done"));
}

TEST_CASE("a counter in memory is found")
{
    auto const proof = prove(named("counter-in-memory"), mistakes::counter_in_memory{payments_url});
    CHECK(proof.failed_schedule() == "forward");
    CHECK(has(proof.cause(), "something that the process remembers from run to run (a counter, a cache)"));
    CHECK(has(proof.difference(), "o-1/2"));
}

TEST_CASE("what a compensation remembers in the process is lost in a crash, which is found")
{
    auto const proof = prove(named("remembered-in-memory"), mistakes::remembered_in_memory{payments_url});
    CHECK(has(proof.failed_schedule(), "crash"));
    CHECK(has(proof.difference(), "payments: wallet"));
}

TEST_CASE("an effect that depends on the time is found")
{
    auto const proof = prove(named("time-dependent"), mistakes::time_dependent{payments_url});
    CHECK(has(proof.cause(), "depends on the time at which it runs"));
}

TEST_CASE("a message that a step publishes by itself is found")
{
    auto const sent = std::make_shared<mistakes::broker>();
    shop_with_mistakes().watch({"messages", [sent] { return *sent; }, [sent] { sent->clear(); }});
    auto const proof = prove(named("published-directly"), mistakes::published_directly{sent});
    CHECK(has(proof.cause(),
              "the step charge-payment sent something to another system before its transaction was committed"));
    CHECK(has(proof.cause(), "outside: messages"));
    CHECK(has(proof.cause(), "ctx.publish()"));
}
