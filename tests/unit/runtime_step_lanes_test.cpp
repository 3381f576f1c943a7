#include "runtime/step_lanes.hpp"

#include <doctest/doctest.h>

using skald::ports::delivery;
using skald::runtime::step_lanes;

namespace {

std::vector<delivery> deliveries(std::vector<std::string> const& types)
{
    std::vector<delivery> all;
    for (auto const& type : types) {
        delivery d;
        d.message.type = type;
        d.tag.number = all.size() + 1;
        all.push_back(std::move(d));
    }
    return all;
}

std::string types_of(std::vector<delivery> const& all)
{
    std::string text;
    for (auto const& d : all) text += (text.empty() ? "" : " ") + d.message.type;
    return text;
}

}  // namespace

TEST_CASE("without limits everything runs as it comes, and nothing waits")
{
    step_lanes limits{{}};
    auto const run = limits.enter(deliveries({"a", "b"}));
    CHECK(types_of(run) == "a b");
    CHECK(types_of(limits.enter(deliveries({"a"}))) == "a");
    CHECK(limits.leave(run, 10).empty());
}

TEST_CASE(
    "a lane takes all that it has of a step as one; the next lane runs the others, and leaves that step's to the first")
{
    step_lanes limits{{{"a", 1}}};
    auto const first = limits.enter(deliveries({"a", "b", "a"}));
    CHECK(types_of(first) == "a b a");
    auto const second = limits.enter(deliveries({"a", "c", "a"}));
    CHECK(types_of(second) == "c");
    CHECK(limits.leave(second, 10).empty());
    auto const next = limits.leave(first, 10);
    CHECK(types_of(next) == "a a");
    CHECK(next[0].tag.number == 1);
    CHECK(next[1].tag.number == 3);
    CHECK(limits.leave(next, 10).empty());
}

TEST_CASE("the lane that goes on with what waited still has its place, and gives it back when nothing waits")
{
    step_lanes limits{{{"a", 1}}};
    auto run = limits.enter(deliveries({"a"}));
    CHECK(limits.enter(deliveries({"a", "a", "a"})).empty());
    run = limits.leave(run, 2);
    CHECK(types_of(run) == "a a");
    CHECK(limits.enter(deliveries({"a"})).empty());
    run = limits.leave(run, 2);
    CHECK(types_of(run) == "a a");
    CHECK(limits.leave(run, 2).empty());
    CHECK(types_of(limits.enter(deliveries({"a"}))) == "a");
}

TEST_CASE("a step runs on as many lanes as it may have, counted for each step alone")
{
    step_lanes limits{{{"a", 2}, {"b", 1}}};
    CHECK(types_of(limits.enter(deliveries({"a", "b"}))) == "a b");
    CHECK(types_of(limits.enter(deliveries({"a", "b"}))) == "a");
    CHECK(limits.enter(deliveries({"a", "b"})).empty());
}

TEST_CASE("a step and its compensation are one: they write the same rows")
{
    step_lanes limits{{{"a", 1}}};
    auto const run = limits.enter(deliveries({"a.compensate"}));
    CHECK(types_of(run) == "a.compensate");
    CHECK(limits.enter(deliveries({"a"})).empty());
    CHECK(types_of(limits.leave(run, 10)) == "a");
}
