// A step that does not return: it is logged, and what waits beside it goes back to the broker, once.
#include "runtime/running_groups.hpp"

#include "support/dispatched_depot.hpp"

#include <doctest/doctest.h>

using namespace skald;
using namespace std::chrono_literals;
using runtime::running_member;
using test::dispatched_depot;

namespace {

constexpr runtime::dispatcher_options impatient{.lanes = 4, .batch_max = 32, .batch_first = 32, .hang_after = 0ms};
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
    d.work->check_for_hanging();
    CHECK(d.arrived.sent_back == numbers{1, 3});  // once
    d.finished(std::move(hanging));
    d.work->check_for_hanging();
    CHECK(d.arrived.sent_back.size() == 2);
}

TEST_CASE("of a call that runs all of a group nobody knows who hangs: all but the first are sent back")
{
    dispatched_depot d{impatient};
    for (auto const* key : {"a", "b", "c"}) d.arrive("pack", key);
    auto hanging = d.take();
    hanging.how.running->is(running_member::all);
    d.work->check_for_hanging();
    CHECK(d.arrived.sent_back == numbers{2, 3});
    d.finished(std::move(hanging));
}

TEST_CASE("a step that hangs is told of again when twice as long has passed")
{
    runtime::running_groups groups{40s};
    std::vector<runtime::task> tasks(1);
    tasks.front().delivery.message.id = "k:pack";
    auto const from = runtime::running_groups::clock::now();
    auto& one = groups.begin("pack", tasks);
    one.running.is(0);
    std::string told;
    for (int second = 0; second < 400; ++second)
        for (auto const& found : groups.hanging(from + std::chrono::seconds{second}))
            told += found.key + ' ' + std::to_string(found.since.count()) + ' ';
    CHECK(told == "k:pack 40 k:pack 80 k:pack 160 k:pack 320 ");
    groups.end(one);
    CHECK(groups.hanging(from + 1'000s).empty());
}

TEST_CASE("members that take their time one after the other do not hang")
{
    runtime::running_groups groups{40s};
    std::vector<runtime::task> tasks(3);
    auto const from = runtime::running_groups::clock::now();
    auto& one = groups.begin("pack", tasks);
    for (int second = 0; second < 90; ++second) {
        one.running.is(static_cast<std::size_t>(second) / 30);
        CHECK(groups.hanging(from + std::chrono::seconds{second}).empty());
    }
    CHECK_FALSE(groups.end(one));
}

TEST_CASE("what was released runs beside the step that hangs, whatever they are serial by; only that one comes back")
{
    dispatched_depot d{impatient, {.serial_by = &test::parcel::shelf}};
    for (auto const* key : {"a", "b", "c"}) d.arrive("pack", key);
    auto hanging = d.take();
    REQUIRE(test::keys(hanging) == "a:pack b:pack c:pack");
    hanging.how.running->is(1);
    d.work->check_for_hanging();
    d.arrive("pack", "a");
    CHECK(test::keys(d.take()).empty());  // "b", of the same shelf, is not known to have ended
    d.arrive("pack", "c", "another shelf");
    CHECK(test::keys(d.take()) == "c:pack");
    d.broken(std::move(hanging), test::failure::contended, test::reaction::again);
    CHECK(test::keys(d.take()) == "b:pack a:pack");
}
