// How many deliveries a new connection has out while some come back.
#include <doctest/doctest.h>

#include "transports/slow_start.hpp"

using namespace std::chrono_literals;
using skald::transports::slow_start;

namespace {
slow_start::clock::time_point const begun{1h};
}

TEST_CASE("a new connection has few deliveries out until something new has come and nothing that came back is left")
{
    slow_start start{100, begun};
    CHECK(start.window(begun) == slow_start::few);
    start.delivered(1, true);
    start.delivered(2, true);
    start.delivered(3, false);
    start.settled(3);
    CHECK(start.window(begun) == slow_start::few);
    start.settled(1);
    start.settled(1);
    CHECK(start.window(begun) == slow_start::few);
    start.settled(2);
    CHECK(start.window(begun) == 100);
    start.delivered(4, true);
    CHECK(start.window(begun) == 100);
}

TEST_CASE("it is over at once if what comes first is new")
{
    slow_start start{100, begun};
    start.delivered(1, false);
    CHECK(start.window(begun) == 100);
}

TEST_CASE("what came back and waits for a lock keeps everything else out no longer than a while")
{
    slow_start start{100, begun};
    start.delivered(1, true);
    CHECK(start.window(begun + slow_start::longest - 1ms) == slow_start::few);
    CHECK(start.window(begun + slow_start::longest) == 100);
}

TEST_CASE("a small prefetch is never exceeded")
{
    slow_start start{slow_start::few - 1, begun};
    CHECK(start.window(begun) == slow_start::few - 1);
}
