// Full jitter: where the ceiling is, that a wait is never above it, and that nothing overflows.
#include <doctest/doctest.h>

#include "core/backoff.hpp"

#include <limits>
#include <random>

using namespace skald::core;
using namespace std::chrono_literals;

TEST_CASE("the ceiling begins at `first`, doubles with each failure, and stays at `longest`")
{
    backoff const policy{100ms, 1'000ms};
    CHECK(policy.ceiling(1) == 100ms);
    CHECK(policy.ceiling(2) == 200ms);
    CHECK(policy.ceiling(3) == 400ms);
    CHECK(policy.ceiling(4) == 800ms);
    CHECK(policy.ceiling(5) == 1'000ms);
    CHECK(policy.ceiling(6) == 1'000ms);
}

TEST_CASE("no failure yet counts as the first")
{
    backoff const policy{100ms, 1'000ms};
    CHECK(policy.ceiling(0) == 100ms);
    CHECK(policy.ceiling(-1) == 100ms);
    CHECK(policy.ceiling(std::numeric_limits<int>::min()) == 100ms);
}

TEST_CASE("the ceiling neither falls nor overflows, however many failures there were")
{
    for (auto const policy : {backoff{}, backoff{1ms, 24h}, backoff{24h * 365, 24h * 3650},
                              backoff{std::chrono::milliseconds::max(), std::chrono::milliseconds::max()}}) {
        CAPTURE(policy.first.count());
        auto last = 0ms;
        for (int failures = 1; failures < 100; ++failures) {
            CAPTURE(failures);
            auto const ceiling = policy.ceiling(failures);
            CHECK(ceiling >= last);
            CHECK(ceiling <= policy.longest);
            last = ceiling;
        }
        CHECK(policy.ceiling(1'000'000) == policy.longest);
        CHECK(policy.ceiling(std::numeric_limits<int>::max()) == policy.longest);
    }
}

TEST_CASE("a `first` above `longest` waits no longer than `longest`")
{
    CHECK(backoff{10s, 1s}.ceiling(1) == 1s);
}

TEST_CASE("a wait is spread from nothing to the ceiling")
{
    std::mt19937_64 random{5};
    backoff const policy{1'000ms, 8'000ms};
    for (int failures = 1; failures <= 6; ++failures) {
        CAPTURE(failures);
        auto const ceiling = policy.ceiling(failures);
        auto shortest = ceiling, longest = 0ms;
        for (int i = 0; i < 2'000; ++i) {
            auto const wait = policy.wait(failures, random);
            REQUIRE(wait >= 0ms);
            REQUIRE(wait <= ceiling);
            shortest = std::min(shortest, wait);
            longest = std::max(longest, wait);
        }
        CHECK(shortest < ceiling / 20);
        CHECK(longest > ceiling - ceiling / 20);
    }
}

TEST_CASE("a policy without any wait waits for nothing")
{
    std::mt19937_64 random{6};
    CHECK(backoff{0ms, 0ms}.wait(9, random) == 0ms);
}
