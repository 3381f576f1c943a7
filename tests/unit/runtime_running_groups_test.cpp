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
    d.work->check_for_slow();
    CHECK(d.arrived.sent_back == numbers{1, 3});  // once
    d.finished(std::move(hanging));
    d.work->check_for_slow();
    CHECK(d.arrived.sent_back.size() == 2);
}

TEST_CASE("of a call that runs all of a group nobody knows who hangs: all but the first are sent back")
{
    dispatched_depot d{impatient};
    for (auto const* key : {"a", "b", "c"}) d.arrive("pack", key);
    auto hanging = d.take();
    hanging.how.running->is(running_member::all);
    d.work->check_for_slow();
    CHECK(d.arrived.sent_back == numbers{2, 3});
    d.finished(std::move(hanging));
}

TEST_CASE("a step that takes long is told of, again when twice as long has passed, and as soon as it hangs")
{
    runtime::running_groups groups{5s, 40s};
    std::vector<runtime::task> tasks(1);
    tasks.front().delivery.message.id = "k:pack";
    auto const from = runtime::running_groups::clock::now();
    auto& one = groups.begin("pack", tasks);
    one.running.is(0);
    std::string told;
    for (int second = 0; second < 400; ++second)
        for (auto const& found : groups.running_long(from + std::chrono::seconds{second}))
            told += std::to_string(found.since.count()) + (found.hangs ? " hangs " : " ");
    CHECK(told == "5 10 20 40 hangs 80 hangs 160 hangs 320 hangs ");
    groups.end(one);
    CHECK(groups.running_long(from + 1'000s).empty());
}

TEST_CASE("a step is said to hang when it does, wherever the doubling is")
{
    runtime::running_groups groups{5s, 12s};
    std::vector<runtime::task> tasks(1);
    auto const from = runtime::running_groups::clock::now();
    groups.begin("pack", tasks).running.is(0);
    std::string told;
    for (int second = 0; second < 30; ++second)
        for (auto const& found : groups.running_long(from + std::chrono::seconds{second}))
            told += std::to_string(found.since.count()) + (found.hangs ? " hangs " : " ");
    CHECK(told == "5 10 12 hangs 24 hangs ");
}

TEST_CASE("members that take their time one after the other do not hang")
{
    runtime::running_groups groups{5s, 40s};
    std::vector<runtime::task> tasks(3);
    auto const from = runtime::running_groups::clock::now();
    auto& one = groups.begin("pack", tasks);
    for (int second = 0; second < 90; ++second) {
        one.running.is(static_cast<std::size_t>(second) / 30);
        for (auto const& found : groups.running_long(from + std::chrono::seconds{second})) CHECK_FALSE(found.hangs);
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
    d.work->check_for_slow();
    d.arrive("pack", "a");
    CHECK(test::keys(d.take()).empty());  // "b", of the same shelf, is not known to have ended
    d.arrive("pack", "c", "another shelf");
    CHECK(test::keys(d.take()) == "c:pack");
    d.broken(std::move(hanging), test::failure::contended, test::reaction::again);
    auto again = d.take();
    CHECK(test::keys(again) == "b:pack");  // alone from now on
    d.finished(std::move(again));
    CHECK(test::keys(d.take()) == "a:pack");
}

TEST_CASE("deliveries that took long run in half of the lanes from then on, and each alone")
{
    dispatched_depot d{{.lanes = 4, .batch_max = 32, .batch_first = 1, .slow_after = 0ms}};
    std::vector<test::dispatcher::group> first;
    for (auto const* key : {"a", "b", "c", "d"}) {
        d.arrive("pack", key);
        first.push_back(d.take());
        first.back().how.running->is(0);
    }
    d.work->check_for_slow();
    for (auto& one : first) d.finished(std::move(one));
    for (auto const* key : {"a", "b", "c", "d", "e"}) d.arrive("pack", key);
    auto one = d.take();
    auto const two = d.take();
    CHECK(test::keys(one) == "a:pack");
    CHECK(test::keys(two) == "b:pack");
    CHECK(test::keys(d.take()) == "e:pack");
    CHECK(d.take().tasks.empty());
    d.finished(std::move(one));
    CHECK(test::keys(d.take()) == "c:pack");
}

TEST_CASE("who of a batch in one call took long is not known, and none of them is held for it")
{
    dispatched_depot d{{.lanes = 2, .batch_max = 32, .batch_first = 32, .slow_after = 0ms}};
    for (auto const* key : {"a", "b"}) d.arrive("pack", key);
    auto both = d.take();
    both.how.running->is(running_member::all);
    d.work->check_for_slow();
    d.finished(std::move(both));
    for (auto const* key : {"a", "b"}) d.arrive("pack", key);
    CHECK(d.take().tasks.size() == 2);
}
