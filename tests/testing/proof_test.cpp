// What a proof says, and how a schedule is run alone. That the matrix finds what is wrong: mistakes_test.cpp.
#include "mistakes/effect_outside.hpp"
#include "shop.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

using namespace kit_test;

namespace {

// Two steps in two services: small enough to run the whole matrix here. Once with a step that is right, and once not.
constexpr auto right = skald::define("right", steps::charge_payment, steps::arrange_shipping);
constexpr auto wrong = skald::define("wrong", steps::charge_payment, steps::arrange_shipping);

skald::testing::harness& right_shop()
{
    static auto const made = [] {
        auto both = std::make_unique<skald::testing::harness>();
        furnish(*both);
        auto* const all = both.get();
        both->add(charging_with(right, charge_payment{})).add(arranging(right));
        both->add(charging_with(wrong, mistakes::effect_outside{[all] { return all->database_url("payments"); }}))
            .add(arranging(wrong));
        return both;
    }();
    return *made;
}

}  // namespace

TEST_CASE("steps that are right pass the whole matrix, and every part of it was run")
{
    std::size_t told = 0;
    skald::testing::proof_options whole;
    whole.sampled = 30;
    whole.remains = {{"payments", "charge"}};
    whole.progress = [&told](std::size_t run, std::size_t of) {
        CHECK(told < run);
        CHECK(run <= of);
        told = run;
    };
    auto const proof = right_shop().prove_exactly_once(right, pen(), whole);
    INFO(proof.report());
    REQUIRE(proof);
    MESSAGE(proof.report());
    CHECK(proof.cause().empty());
    for (auto const* const kind :
         {"deliver twice", "deliver 5 times", "deliver twice at once", "deliver again at the end",
          "deliver after its neighbour", "undisturbed", "two at once, sampled"}) {
        CAPTURE(kind);
        REQUIRE(proof.by_kind().contains(kind));
        CHECK(proof.by_kind().at(kind).run > 0);
    }
    for (auto const& at : skald::testing::crash_points) {
        std::string const name{at.name};
        CAPTURE(name);
        if (name.ends_with(" the call")) continue;  // of steps that make one: external_proof_test.cpp
        REQUIRE(proof.by_kind().contains(name));
        auto const& count = proof.by_kind().at(name);
        CHECK(count.run > 0);
        CHECK(count.not_met == 0);  // each single disturbance came to pass
    }
    CHECK(proof.schedules() > 500);
    CHECK(right_shop().ask("payments", "SELECT cents FROM wallet") ==
          skald::testing::rows{"1000"});  // and all is as before
}

TEST_CASE("the quick form disturbs each place once, and finds what the whole one finds")
{
    skald::testing::proof_options quick{.quick = true, .remains = {{"payments", "charge"}}};
    auto const connections = [] {
        auto const found =
            right_shop().ask("payments", "SELECT sessions FROM pg_stat_database WHERE datname = current_database()");
        return std::stoi(found.front());
    };
    auto const before = connections();
    auto const proof = right_shop().prove_exactly_once(right, pen(), quick);
    INFO(proof.report());
    REQUIRE(proof);
    MESSAGE(proof.report());
    CHECK(connections() - before < 10);  // a crash opens none: that takes longer than all else in a schedule
    CHECK_FALSE(proof.by_kind().contains("two at once, sampled"));
    for (auto const& at : skald::testing::crash_points) {
        if (std::string_view{at.name}.ends_with(" the call")) continue;
        CAPTURE(at.name);
        CHECK(proof.by_kind().contains(std::string{at.name}));
    }
    auto const found = right_shop().prove_exactly_once(wrong, pen(), quick);
    CHECK_FALSE(found);
    CHECK(has(found.report(), "made its effect outside its transaction"));
    CHECK(has(found.report(), "what it should: reject charge-payment\n"));
}

namespace {

/// Its rows are numbered by the database.
class numbered_charge final : public skald::compensatable_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("INSERT INTO receipt (customer) VALUES ($1)", o.customer);
        return skald::done();
    }
    void compensate(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("DELETE FROM receipt WHERE customer = $1", o.customer);
    }
};

}  // namespace

TEST_CASE("a step that is right passes though its rows are numbered by a sequence, which ROLLBACK does not put back")
{
    constexpr auto numbered = skald::define("numbered", steps::charge_payment, steps::arrange_shipping);
    skald::testing::harness shop;
    furnish(shop);
    shop.add(only_tables("payments", "0002_receipt",
                         "CREATE TABLE receipt (id bigint GENERATED ALWAYS AS IDENTITY, customer text)"))
        .add(charging_with(numbered, numbered_charge{}))
        .add(arranging(numbered));
    auto const proof = shop.prove_exactly_once(numbered, pen(), {.quick = true});
    INFO(proof.report());
    CHECK(proof);
}

TEST_CASE("a schedule that failed fails alone, by its name in an option or in the environment")
{
    for (auto const* const name : {"forward; crash after the step at charge-payment",
                                   "forward; lose the COMMIT at charge-payment; deliver arrange-shipping twice"}) {
        CAPTURE(name);
        auto const again = right_shop().prove_exactly_once(
            wrong, pen(), {.effects = {{"payments", "SELECT cents FROM wallet"}}, .only = name});
        CHECK_FALSE(again);
        CHECK(has(again.report(), "payments: SELECT cents FROM wallet\n    - 900\n    + 800"));
    }

    ::setenv("SKALD_TESTING_ONLY", "forward; deliver charge-payment twice", 1);
    auto const from_environment =
        right_shop().prove_exactly_once(right, pen(), {.effects = {{"payments", "SELECT cents FROM wallet"}}});
    ::unsetenv("SKALD_TESTING_ONLY");
    CHECK(from_environment);
    CHECK(from_environment.by_kind().at("one schedule alone").run == 1);
}

TEST_CASE("a name that is no schedule's is told so, with the ways that there are")
{
    auto const proof =
        right_shop().prove_exactly_once(right, pen(), {.only = "forward; deliver charge-payment thrice"});
    CHECK_FALSE(proof);
    CHECK(has(proof.report(), "there is no schedule of that name"));
    CHECK(has(proof.cause(), "fail charge-payment indefinitely"));
    CHECK(has(proof.cause(), "cancel before arrange-shipping"));
}

TEST_CASE("data with which the saga does not complete by itself proves nothing")
{
    auto poor = pen();
    poor.cents = 5000;
    auto const proof = right_shop().prove_exactly_once(right, poor);
    CHECK_FALSE(proof);
    CHECK(has(proof.report(), "the saga ends as compensated and not as completed"));
    CHECK(has(proof.report(), "charge-payment: insufficient funds"));
}

TEST_CASE("a query that is wrong is told by the database")
{
    CHECK_THROWS_WITH(static_cast<void>(right_shop().prove_exactly_once(
                          right, pen(), {.effects = {{"payments", "SELECT nothing FROM wallet"}}})),
                      doctest::Contains("nothing"));
}

// All that the kit asks of a test framework: something that is true or false, and `<<`.
namespace homemade {

struct run
{
    std::vector<std::string> failures;

    template <class T>
    void expect(T const& found)
    {
        std::ostringstream text;
        text << found;
        if (!found) failures.push_back(text.str());
    }
};

}  // namespace homemade

TEST_CASE("the kit asks for no more of a test framework than a dozen lines have")
{
    right_shop().rewind();
    homemade::run run;
    auto const key = right_shop().start(wrong, pen());
    run.expect(right_shop().saga_is(key, "running"));
    run.expect(right_shop().saga_is(key, "completed"));
    run.expect(right_shop().prove_exactly_once(wrong, pen(), {.quick = true, .remains = {{"payments", "charge"}}}));
    REQUIRE(run.failures.size() == 2);
    CHECK(has(run.failures[0], "is expected to be completed, and it is running"));
    CHECK(has(run.failures[1], "made its effect outside its transaction"));
}
