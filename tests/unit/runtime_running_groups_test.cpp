// A step that does not return: it is told of, and what waits beside it goes back to the broker, once.
#include "runtime/running_groups.hpp"

#include "support/dispatched_depot.hpp"

#include <doctest/doctest.h>

using namespace skald;
using namespace std::chrono_literals;
using runtime::running_member;
using test::dispatched_depot;

namespace {

constexpr runtime::dispatcher_options impatient{.lanes = 4, .batch_max = 32, .batch_first = 32, .patience = 0ms};
using numbers = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("what waits beside a step that does not return is sent back, and the step itself is not")
{
    dispatched_depot d{impatient};
    for (auto const* key : {"a", "b", "c"}) d.arrive("pack", key);
    auto hanging = d.take();
    REQUIRE(hanging.tasks.size() == 3);
    d.take();
    CHECK(d.arrived.sent_back.empty());  // Skald's own statements have limits of their own
    hanging.how.running->is(1);
    d.take();
    CHECK(d.arrived.sent_back == numbers{1, 3});
    d.work->look_for_hanging();
    CHECK(d.arrived.sent_back == numbers{1, 3});  // once
    d.settled(std::move(hanging));
    d.work->look_for_hanging();
    CHECK(d.arrived.sent_back.size() == 2);
}

TEST_CASE("of a call that runs all of a group nobody knows who hangs: all but the first are sent back")
{
    dispatched_depot d{impatient};
    for (auto const* key : {"a", "b", "c"}) d.arrive("pack", key);
    auto hanging = d.take();
    hanging.how.running->is(running_member::all);
    d.work->look_for_hanging();
    CHECK(d.arrived.sent_back == numbers{2, 3});
    d.settled(std::move(hanging));
}

TEST_CASE("a step that hangs is told of again when twice as long has passed")
{
    runtime::running_groups groups;
    std::vector<runtime::task> tasks(1);
    tasks.front().delivery.message.id = "k:pack";
    auto const from = runtime::running_groups::clock::now();
    auto& one = groups.begin(tasks, from, 40s);
    one.running.is(0);
    std::string told;
    for (int second = 0; second < 400; ++second)
        for (auto const& found : groups.hanging(from + std::chrono::seconds{second}))
            told += found.key + ' ' + std::to_string(found.since.count()) + ' ';
    CHECK(told == "k:pack 40 k:pack 80 k:pack 160 k:pack 320 ");
    groups.end(one);
    CHECK(groups.hanging(from + 1'000s).empty());
}
