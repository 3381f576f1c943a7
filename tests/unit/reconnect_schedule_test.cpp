// When a lost connection is tried again.
#include <doctest/doctest.h>

#include "transports/reconnect_schedule.hpp"

#include <algorithm>

namespace {

using namespace std::chrono_literals;
using skald::transports::reconnect_schedule;

/// The longest wait in many draws after this many failures in a row.
std::chrono::milliseconds longest_wait(int failures)
{
    reconnect_schedule::time_point const now{1h};
    auto longest = 0ms;
    for (std::uint64_t seed = 1; seed < 300; ++seed) {
        reconnect_schedule schedule{{100ms, 15s}, seed};
        for (int i = 0; i < failures; ++i) schedule.failed(now);
        longest = std::max(longest, std::chrono::duration_cast<std::chrono::milliseconds>(schedule.next() - now));
    }
    return longest;
}

}  // namespace

TEST_CASE("the first attempt is due at once")
{
    CHECK(reconnect_schedule{{100ms, 15s}, 1}.due(reconnect_schedule::time_point{1h}));
}

TEST_CASE("the longest wait doubles with each failure, up to a limit")
{
    CHECK(longest_wait(1) <= 100ms);
    CHECK(longest_wait(1) > 80ms);
    CHECK(longest_wait(4) <= 800ms);
    CHECK(longest_wait(4) > 700ms);
    CHECK(longest_wait(30) <= 15s);
    CHECK(longest_wait(30) > 14s);
}

TEST_CASE("an attempt is not due before its wait is over")
{
    reconnect_schedule::time_point const now{1h};
    reconnect_schedule schedule{{100ms, 15s}, 7};
    schedule.failed(now);
    REQUIRE(schedule.next() > now);
    CHECK_FALSE(schedule.due(now));
    CHECK(schedule.due(schedule.next()));
}

TEST_CASE("only a connection that lasted ten seconds forgets earlier failures")
{
    reconnect_schedule::time_point const now{1h};
    auto const longest_after = [&](std::chrono::seconds lasted) {
        auto longest = 0ms;
        for (std::uint64_t seed = 1; seed < 300; ++seed) {
            reconnect_schedule schedule{{100ms, 15s}, seed};
            for (int i = 0; i < 10; ++i) schedule.failed(now);
            schedule.connected(now);
            schedule.failed(now + lasted);
            auto const wait = schedule.next() - now - lasted;
            longest = std::max(longest, std::chrono::duration_cast<std::chrono::milliseconds>(wait));
        }
        return longest;
    };
    CHECK(longest_after(9s) > 10s);
    CHECK(longest_after(10s) <= 100ms);
}
