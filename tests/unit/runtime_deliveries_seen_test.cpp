// How often steps were delivered, in memory.
#include "runtime/deliveries_seen.hpp"

#include <doctest/doctest.h>

using namespace skald::runtime;

namespace {

deliveries_seen::step step_of(std::string key)
{
    return {"", std::move(key), "charge", "orders"};
}

}  // namespace

TEST_CASE("a step that is met again is counted until that is taken")
{
    deliveries_seen seen;
    seen.met_again(step_of("a"), true);
    seen.met_again(step_of("a"), false);
    auto const taken = seen.take();
    REQUIRE(taken.size() == 1);
    CHECK(taken.begin()->second.more == 2);
    CHECK(taken.begin()->second.duplicates == 1);
    CHECK(seen.take().empty());
}

TEST_CASE("counts that are put back add to those that came meanwhile")
{
    deliveries_seen seen;
    seen.met_again(step_of("a"), true);
    auto const taken = seen.take();
    seen.met_again(step_of("a"), true);
    seen.put_back(taken);
    CHECK(seen.take().at(step_of("a")).more == 2);
}

TEST_CASE("homes, scopes and steps of one key are told apart")
{
    deliveries_seen seen;
    seen.met_again({"", "a", "charge", "orders"}, true);
    seen.met_again({"", "a", "charge", "returns"}, true);
    seen.met_again({"eu", "a", "charge", "orders"}, true);
    seen.met_again({"", "a", "charge.compensate", "orders"}, true);
    CHECK(seen.take().size() == 4);
}

TEST_CASE("memory is bounded: a new step is not counted while there are too many, and a known one is")
{
    deliveries_seen seen{2};
    for (auto const* key : {"a", "b", "c", "a"}) seen.met_again(step_of(key), true);
    auto const taken = seen.take();
    CHECK(taken.size() == 2);
    CHECK(taken.at(step_of("a")).more == 2);
}
