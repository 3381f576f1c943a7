// Deliveries that came back unacked: one of them may be what killed its process.
#include "support/dispatched_depot.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

using namespace skald;
using namespace skald::test;
using depot = dispatched_depot;

TEST_CASE("those that came back go last, alone, mostly who did less often first, and none never")
{
    depot d;
    std::map<std::string, int> first_of_them;
    for (int turn = 0; turn < 400; ++turn) {
        for (auto const& [key, returns] : {std::pair{"a", 2}, {"b", 1}, {"c", 0}, {"d", 40}, {"e", 0}}) {
            d.returns = returns;
            d.arrive("pack", key);
        }
        std::set<std::string> alone;
        for (int n = 0; n < 4; ++n) {
            auto next = d.take();
            if (n == 0) CHECK(keys(next) == "c:pack e:pack");
            else alone.insert(keys(next));
            if (n == 1) ++first_of_them[keys(next)];
            d.finished(std::move(next));
        }
        CHECK(alone == std::set<std::string>{"a:pack", "b:pack", "d:pack"});
    }
    CHECK(first_of_them["b:pack"] > 200);
    CHECK(first_of_them["d:pack"] > 40);  // however often it came back
}

TEST_CASE("of those that came back more than once, one runs at a time")
{
    depot d;
    d.returns = 2;
    d.arrive("pack", "a");
    d.arrive("weigh", "b");
    auto first = d.take();
    CHECK(first.tasks.size() == 1);
    CHECK(d.take().tasks.empty());
    d.broken(std::move(first), failure::contended, reaction::again);
    auto second = d.take();
    CHECK(second.tasks.size() == 1);
    d.finished(std::move(second));
    CHECK(d.work->take(10s).tasks.size() == 1);
}

TEST_CASE("one that came back once runs beside one that did more often")
{
    depot d;
    for (int const returns : {2, 1, 1}) {
        d.returns = returns;
        d.arrive("pack", std::to_string(returns));
    }
    CHECK(d.take().tasks.size() == 1);
    CHECK(d.take().tasks.size() == 1);
}

TEST_CASE("a delivery that came back waits for no more than a number of others")
{
    depot d{{4, 1, 1}};
    d.returns = 1;
    d.arrive("pack", "suspect");
    d.returns = 0;
    int before = 0;
    for (std::string met; met != "suspect:pack"; ++before) {
        REQUIRE(before < 5'000);
        for (int n = 0; n < 2; ++n) d.arrive("pack", std::to_string(before) + '.' + std::to_string(n));
        auto next = d.take();
        met = keys(next);
        d.finished(std::move(next));
    }
    CHECK(before > 100);
}

TEST_CASE("what kills its process each time is given up alone: whoever stands behind it gets past it")
{
    struct waiting
    {
        std::string key;
        int returns{};
    };
    constexpr int delivery_limit = 50;
    std::vector<waiting> queue{{"deadly"}};
    for (int n = 0; n < 100; ++n) queue.push_back({std::to_string(n)});
    int lives = 0;
    for (; queue.size() > 1; ++lives) {
        REQUIRE(lives < delivery_limit);
        depot d{{4, 32, 32}, {}, {}, static_cast<std::uint64_t>(lives)};
        for (auto const& one : queue) {
            d.returns = one.returns;
            d.arrive("pack", one.key);
        }
        for (bool lives_on = true; lives_on;) {
            auto next = d.take();
            for (auto const& t : next.tasks) lives_on = lives_on && t.step()->envelope.saga.key != "deadly";
            if (!lives_on) continue;
            for (auto const& t : next.tasks)
                std::erase_if(queue, [&](auto const& one) { return one.key == t.step()->envelope.saga.key; });
            d.finished(std::move(next));
        }
        for (auto& one : queue) ++one.returns;
    }
    CHECK(queue.front().key == "deadly");
    CHECK(lives < delivery_limit / 2);
}
