// The token bucket: what it holds at first, how fast it fills, and that no second has more than the rate and a burst.
#include <doctest/doctest.h>

#include "core/rate_limit.hpp"
#include "unit/seeded.hpp"

#include <deque>
#include <limits>

using skald::core::rate_limit;
using namespace std::chrono_literals;

namespace {

rate_limit::clock::time_point const start{1'000s};

void take_all(rate_limit& rate, rate_limit::clock::time_point now)
{
    while (rate.room(now) > 0) rate.take(now);
}

}  // namespace

TEST_CASE("a rate of 0 is no limit")
{
    rate_limit rate{0};
    for (int i = 0; i < 1'000; ++i) rate.take(start);
    CHECK(rate.room(start) == std::numeric_limits<std::size_t>::max());
    CHECK(rate.next(start) == start);
}

TEST_CASE("a tenth of a second's may begin at once, then one in each interval")
{
    rate_limit rate{50};
    CHECK(rate.room(start) == 5);
    take_all(rate, start);
    CHECK(rate.room(start + 20ms - 1ns) == 0);
    CHECK(rate.next(start + 1ms) == start + 20ms);
    CHECK(rate.room(start + 20ms) == 1);
    CHECK(rate.room(start + 60ms) == 3);
    CHECK(rate.room(start + 1h) == 5);
}

TEST_CASE("a rate of less than ten a second has room for one at once")
{
    rate_limit rate{1};
    CHECK(rate.room(start) == 1);
    rate.take(start);
    CHECK(rate.next(start) == start + 1s);
}

TEST_CASE("a rate beyond what the clock can tell apart is one each nanosecond")
{
    rate_limit rate{std::numeric_limits<std::uint64_t>::max()};
    CHECK(rate.room(start) == 100'000'000);
    rate.take(start);
    CHECK(rate.room(start) == 99'999'999);
    CHECK(rate.room(start + 1ns) == 100'000'000);
}

TEST_CASE("no second has more than the rate and a burst, however they are asked for; and none is held back for nothing")
{
    for (int one = 0; one < skald::test::cases(200); ++one) {
        CAPTURE(one);
        skald::test::seeded random{static_cast<std::uint_fast32_t>(one)};
        std::uint64_t const per_second = random.number(1, 120);
        rate_limit rate{per_second};
        auto const most = per_second + rate_limit::burst_of(per_second);
        std::deque<rate_limit::clock::time_point> began;
        auto now = start;
        for (int look = 0; look < 500; ++look) {
            now += std::chrono::microseconds{random.number(0, random.coin() ? 1'000 : 400'000)};
            while (!began.empty() && began.front() <= now - 1s) began.pop_front();
            if (began.empty()) REQUIRE(rate.room(now) > 0);
            auto const room = rate.room(now);
            for (auto n = random.number(0, room); n > 0; --n) {
                rate.take(now);
                began.push_back(now);
            }
            REQUIRE(began.size() <= most);
            auto const next = rate.next(now);
            REQUIRE(rate.room(next) > 0);
            if (next > now) REQUIRE(rate.room(next - 1ns) == 0);
        }
    }
}
