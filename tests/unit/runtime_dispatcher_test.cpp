// What runs together, what waits, and that nothing is left behind.
#include "support/dispatched_depot.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>

using namespace skald;
using namespace skald::test;
using depot = dispatched_depot;

TEST_CASE("what has arrived for one step runs together, and no other step with it")
{
    depot d;
    for (auto const* key : {"1", "2"}) d.arrive("pack", key);
    d.arrive("weigh", "3");
    d.arrive("pack", "4");
    auto const first = d.take();
    CHECK(keys(first) == "1:pack 2:pack 4:pack");
    auto const second = d.take();
    CHECK(keys(second) == "3:weigh");
    CHECK(d.take().tasks.empty());
}

TEST_CASE("a compensation and its step are never in one transaction")
{
    depot d;
    d.arrive("pack", "1", "a", core::direction::back);
    d.arrive("pack", "1");
    CHECK(keys(d.take()) == "1:pack.compensate");
    CHECK(keys(d.take()) == "1:pack");
}

TEST_CASE("a limit that grows costs the database nothing, and one that shrinks is written down")
{
    depot d{{1, 4, 1}};
    auto const commit = [&d](int deliveries) {
        for (int n = 0; n < deliveries; ++n) d.arrive("pack", std::to_string(n));
        return d.work->finish(d.take(), {});
    };
    for (int const deliveries : {1, 2, 4}) CHECK(commit(deliveries).empty());
    for (int n = 0; n < 4; ++n) d.arrive("pack", std::to_string(n));
    CHECK(d.broken(d.take(), failure::contended, reaction::again).size() == 1);
}

TEST_CASE("a step that may have one lane waits for it, forward and back, while other steps go on")
{
    depot d{{4, 32, 32}, {.concurrency = 1}};
    d.arrive("pack", "1");
    auto running = d.take();
    d.arrive("pack", "2");
    d.arrive("pack", "3", "a", core::direction::back);
    d.arrive("weigh", "4");
    CHECK(keys(d.take()) == "4:weigh");
    CHECK(d.take().tasks.empty());
    d.finished(std::move(running));
    auto next = d.take();
    CHECK(keys(next) == "2:pack");
    d.finished(std::move(next));
    CHECK(keys(d.take()) == "3:pack.compensate");
}

TEST_CASE("two limited steps that wait are both taken up, though the first alone fills a transaction")
{
    depot d{{2, 2, 2}, {.concurrency = 1}, {.concurrency = 1}};
    d.arrive("pack", "1");
    d.arrive("weigh", "2");
    auto packing = d.take(), weighing = d.take();
    for (auto const* key : {"3", "4", "5"}) d.arrive("pack", key);
    for (auto const* key : {"6", "7", "8"}) d.arrive("weigh", key);
    CHECK(d.take().tasks.empty());
    d.finished(std::move(packing));
    d.finished(std::move(weighing));
    // Nothing else arrives: what waits must come of itself.
    std::set<std::string> seen;
    for (auto next = d.take(); !next.tasks.empty(); next = d.take()) {
        for (auto const& t : next.tasks) seen.insert(t.step()->key().text());
        d.finished(std::move(next));
    }
    CHECK(seen == std::set<std::string>{"3:pack", "4:pack", "5:pack", "6:weigh", "7:weigh", "8:weigh"});
}

TEST_CASE("what waited when the connection was lost is dropped once the new one delivers, for it comes again")
{
    depot d{{4, 32, 32}, {.concurrency = 1}};
    d.arrive("pack", "1", "a", core::direction::forward, 1);
    auto running = d.take();
    for (int n = 0; n < 5; ++n) d.arrive("pack", "old" + std::to_string(n), "a", core::direction::forward, 1);
    CHECK(d.take().tasks.empty());
    d.arrive("pack", "new", "a", core::direction::forward, 2);
    CHECK(d.take().tasks.empty());
    d.finished(std::move(running));
    CHECK(keys(d.take()) == "new:pack");
}

TEST_CASE("equal values of serial_by never run at the same time, and a transaction runs in their order")
{
    depot d{{4, 2, 2}, {.serial_by = &parcel::shelf}};
    d.arrive("pack", "1", "b");
    d.arrive("pack", "2", "a");
    d.arrive("pack", "3", "b");
    d.arrive("pack", "4", "c");
    auto first = d.take();
    CHECK(keys(first) == "2:pack 1:pack");
    CHECK(keys(d.take()) == "4:pack");
    CHECK(d.take().tasks.empty());
    d.finished(std::move(first));
    CHECK(keys(d.take()) == "3:pack");
}

TEST_CASE("one that was tried before runs alone, for it may fail again")
{
    depot d;
    d.arrive("pack", "1");
    d.arrive("pack", "2", "a", core::direction::forward, 0, 2);
    d.arrive("pack", "3");
    CHECK(keys(d.take()) == "1:pack 3:pack");
    CHECK(keys(d.take()) == "2:pack");
}

TEST_CASE("those that broke a transaction together come again, each alone")
{
    depot d;
    for (auto const* key : {"1", "2", "3"}) d.arrive("pack", key);
    d.broken(d.take(), failure::refused, reaction::each_alone);
    for (auto const* key : {"1:pack", "2:pack", "3:pack"}) {
        auto one = d.take();
        CHECK(keys(one) == key);
        d.finished(std::move(one));
    }
}

TEST_CASE("those that were in another's way come again at once, in their order, on fewer lanes")
{
    depot d;
    for (auto const* key : {"1", "2", "3"}) d.arrive("pack", key);
    auto const changed = d.broken(d.take(), failure::contended, reaction::again);
    REQUIRE(changed.size() == 1);
    CHECK(changed[0].step == "pack");
    CHECK(changed[0].lanes == 2);
    CHECK(changed[0].conflicts == 1);
    CHECK(keys(d.take()) == "1:pack 2:pack 3:pack");
}

TEST_CASE("one alone that could not be processed comes again a while later, and counts its tries")
{
    depot d;
    d.arrive("pack", "1");
    d.broken(d.take(), failure::connection_lost, reaction::again);
    auto again = d.work->take(10s);
    REQUIRE(keys(again) == "1:pack");
    CHECK(again.tasks[0].tries == 1);
    d.broken(std::move(again), failure::connection_lost, reaction::again);
    again = d.work->take(10s);
    CHECK(again.tasks[0].tries == 2);
    d.broken(std::move(again), failure::suspect, reaction::again);
    CHECK(d.work->take(10s).tasks[0].tries == 1);
}

TEST_CASE("one that may have ended its session itself comes again behind the others, and one that did not before them")
{
    for (auto const why : {failure::connection_lost, failure::unavailable}) {
        depot d{{4, 1, 1}, {.concurrency = 1}};
        d.arrive("pack", "lost");
        auto lost = d.take();
        d.arrive("pack", "1");
        d.arrive("pack", "2");
        d.broken(std::move(lost), why, reaction::again);
        auto one = d.take();  // at once: it is due in a moment
        REQUIRE(keys(one) == "1:pack");
        CHECK(d.work->take(200ms).tasks.empty());  // meanwhile it is due
        d.finished(std::move(one));
        CHECK(keys(d.take()) == (why == failure::connection_lost ? "2:pack" : "lost:pack"));
    }
}

TEST_CASE("many lanes at once are handed each delivery once, and none is left behind")
{
    depot d{{4, 8, 1}, {.concurrency = 1}, {.concurrency = 2}};
    constexpr int each = 300;
    std::mutex mutex;
    std::multiset<std::string> seen;
    std::atomic<bool> stop{};
    std::vector<std::thread> lanes;
    for (int n = 0; n < 4; ++n)
        lanes.emplace_back([&] {
            while (!stop) {
                auto g = d.work->take(5ms);
                if (g.tasks.empty()) continue;
                {
                    std::lock_guard const lock{mutex};
                    for (auto const& t : g.tasks) seen.insert(t.step()->key().text());
                }
                d.finished(std::move(g));
            }
        });
    for (int n = 0; n < each; ++n) {
        d.arrive("pack", std::to_string(n));
        d.arrive("weigh", std::to_string(n));
    }
    CHECK(testing::wait_until([&] {
        std::lock_guard const lock{mutex};
        return seen.size() >= 2 * each;
    }));
    stop = true;
    for (auto& one : lanes) one.join();
    CHECK(seen.size() == 2 * each);
    CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == 2 * each);
}

TEST_CASE("what arrives is counted by step and direction, and what the broker had delivered before as that, too")
{
    depot d;
    d.arrive("pack", "1");
    d.arrive("pack", "2", "a", core::direction::back);
    d.returns = 1;
    d.arrive("pack", "3");
    while (!d.take().tasks.empty()) {}
    auto const& counts = *d.steps.find("move-house", "pack")->counts;
    CHECK(counts.forward.deliveries.value() == 2);
    CHECK(counts.forward.redelivered.value() == 1);
    CHECK(counts.compensation.deliveries.value() == 1);
    CHECK(d.steps.find("move-house", "weigh")->counts->forward.deliveries.value() == 0);
}

TEST_CASE("a step's limit is shown as it is now, with what changed it")
{
    depot d{{4, 8, 8}};
    for (int n = 0; n < 8; ++n) d.arrive("pack", std::to_string(n));
    auto running = d.take();
    auto const& shown = d.steps.limit_of("pack");
    CHECK(shown.lanes.value() == 4);
    CHECK(shown.batch.value() == 8);
    CHECK(shown.conflicts.value() == 0);
    d.broken(std::move(running), failure::contended, reaction::again);
    CHECK(shown.lanes.value() == 2);
    CHECK(shown.conflicts.value() == 1);
    CHECK(shown.changes[metrics::limit_reason::conflict].value() == 1);
    CHECK(shown.takes_turns.value() == 0);
}
