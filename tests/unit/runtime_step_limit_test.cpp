// The limit of a step: how it grows, what makes it shrink, and in which order.
#include "runtime/step_limit.hpp"

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using skald::runtime::step_limit;

namespace {

/// A limit with a clock of its own.
struct watched
{
    explicit watched(skald::runtime::limit_bounds bounds = {4, 32, 1}) : limit{bounds} {}

    /// So many transactions, each as large as it may be.
    void commit(int times, step_limit::clock::duration each = 100us)
    {
        for (int n = 0; n < times; ++n) {
            now += 1ms;
            limit.committed(limit.batch(), each * limit.batch(), now);
        }
    }

    void conflict(step_limit::clock::duration later = 1s)
    {
        now += later;
        limit.conflicted(now);
    }

    step_limit limit;
    step_limit::clock::time_point now{1h};
};

}  // namespace

TEST_CASE("the first transaction has one delivery, and each that is full and commits doubles the next")
{
    watched w;
    CHECK(w.limit.batch() == 1);
    CHECK(w.limit.lanes() == 4);
    for (std::size_t const next : {2, 4, 8, 16, 32, 32}) {
        w.commit(1);
        CHECK(w.limit.batch() == next);
    }
}

TEST_CASE("transactions that were not full say nothing of whether a fuller one would commit")
{
    watched w;
    w.commit(2);
    REQUIRE(w.limit.batch() == 4);
    for (int n = 0; n < 10; ++n) w.limit.committed(3, 1ms, w.now);
    CHECK(w.limit.batch() == 4);
}

TEST_CASE(
    "where transactions are in each other's way fewer lanes run the step, then it takes turns, then they are smaller")
{
    watched w;
    w.commit(5);
    w.conflict();
    CHECK(w.limit.lanes() == 2);
    w.conflict();
    CHECK(w.limit.lanes() == 1);
    CHECK_FALSE(w.limit.takes_turns());
    CHECK(w.limit.batch() == 32);
    w.conflict();
    CHECK(w.limit.takes_turns());
    CHECK(w.limit.batch() == 32);
    for (std::size_t const next : {16, 8, 4, 2, 1, 1}) {
        w.conflict();
        CHECK(w.limit.batch() == next);
    }
    CHECK(w.limit.conflicts() == 9);
}

TEST_CASE("those that met in one clash count once")
{
    watched w;
    w.commit(5);
    w.conflict();
    for (int n = 0; n < 3; ++n) w.conflict(5ms);
    CHECK(w.limit.lanes() == 2);
    CHECK(w.limit.conflicts() == 4);
}

TEST_CASE("what was calm for a while is loosened one step at a time, the last restriction first")
{
    watched w;
    w.commit(5);
    for (int n = 0; n < 3; ++n) w.conflict();
    REQUIRE(w.limit.takes_turns());
    w.commit(10);
    CHECK(w.limit.takes_turns());
    w.now += 6s;
    w.commit(10);
    CHECK_FALSE(w.limit.takes_turns());
    CHECK(w.limit.lanes() == 1);
    for (std::size_t const next : {2, 3, 4, 4}) {
        w.now += 6s;
        w.commit(10);
        CHECK(w.limit.lanes() == next);
    }
}

TEST_CASE("each time that it was loosened too early it waits twice as long, up to a minute")
{
    watched w{{2, 32, 32}};
    w.conflict();
    auto wait = 5s;
    for (int n = 0; n < 8; ++n) {
        CAPTURE(n);
        w.now += wait - 1s;
        w.commit(1);
        CHECK(w.limit.lanes() == 1);
        w.now += 1s;
        w.commit(1);
        REQUIRE(w.limit.lanes() == 2);
        w.conflict(500ms);
        REQUIRE(w.limit.lanes() == 1);
        wait = std::min(2 * wait, std::chrono::seconds{60});
    }
}

TEST_CASE("behind a cut it grows by one, not by doubling")
{
    watched w{{1, 32, 32}};
    w.conflict();
    w.conflict();
    REQUIRE(w.limit.batch() == 16);
    w.commit(3);
    CHECK(w.limit.batch() == 19);
}

TEST_CASE("growth is told as growth, but for the one that leaves nothing of a cut")
{
    watched w{{1, 4, 4}};
    w.conflict();
    w.conflict();
    REQUIRE(w.limit.batch() == 2);
    auto const next = w.limit.committed(2, 1ms, w.now);
    REQUIRE(next);
    CHECK(next->is_growth);
    auto const last = w.limit.committed(3, 1ms, w.now);
    REQUIRE(last);
    CHECK_FALSE(last->is_growth);
    CHECK_FALSE(w.limit.committed(4, 1ms, w.now));
}

TEST_CASE("a step that takes long has a transaction for each delivery, and keeps its lanes")
{
    watched w;
    w.commit(3, 500ms);
    CHECK(w.limit.batch() == 1);
    w.conflict();
    w.conflict();
    CHECK(w.limit.lanes() == 4);
    CHECK_FALSE(w.limit.takes_turns());
}

TEST_CASE("one that becomes slow shrinks, and one that becomes fast again grows")
{
    watched w;
    w.commit(10);
    REQUIRE(w.limit.batch() == 32);
    w.commit(10, 30ms);
    CHECK(w.limit.batch() <= 4);
    w.commit(30);
    CHECK(w.limit.batch() == 32);
}

TEST_CASE("it never grows beyond what the step and the worker permit")
{
    watched w{{2, 5, 1}};
    w.commit(20);
    CHECK(w.limit.batch() == 5);
    w.now += 1h;
    w.commit(20);
    CHECK(w.limit.lanes() == 2);
    CHECK(w.limit.batch() == 5);
}
