// Percentiles, latencies that are corrected for coordinated omission, and the shape of the load.
#include "load.hpp"

#include "keys.hpp"
#include "open_load.hpp"
#include "percentiles.hpp"
#include "phase.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

using namespace skald_bench;
using namespace std::chrono_literals;

namespace {

std::vector<double> one_to(int last)
{
    std::vector<double> values(static_cast<std::size_t>(last));
    std::iota(values.rbegin(), values.rend(), 1.0);  // the order must not matter
    return values;
}

}  // namespace

TEST_CASE("a percentile is the smallest value that so many do not exceed")
{
    auto const thousand = percentiles_of(one_to(1'000));
    CHECK(thousand.count == 1'000);
    CHECK(thousand.p50 == 500);
    CHECK(thousand.p95 == 950);
    CHECK(thousand.p99 == 990);
    CHECK(thousand.p999 == 999);
    CHECK(thousand.max == 1'000);

    auto const hundred = percentiles_of(one_to(100));
    CHECK(hundred.p99 == 99);
    CHECK(hundred.p999 == 100);

    auto const one = percentiles_of({7.0});
    CHECK(one.p50 == 7);
    CHECK(one.p999 == 7);
    CHECK(percentiles_of({}).count == 0);
}

TEST_CASE("requests are due at a constant rate, without an error that adds up")
{
    using clock = std::chrono::steady_clock;
    open_loop<clock> const loop{clock::time_point{10s}, 300};
    CHECK(loop.due(0) == clock::time_point{10s});
    CHECK(loop.due(300) == clock::time_point{11s});
    CHECK(loop.due(300 * 3'600) == clock::time_point{10s + 1h});
}

// A client that waits for each answer, 100 requests a second, and a server that needs 1 ms, but once 1 s. What
// was sent late because of that is charged to the server; from when each was sent, one request in a thousand
// would have seen anything.
TEST_CASE("a stall is charged to everybody who had to wait")
{
    using clock = std::chrono::steady_clock;
    open_loop<clock> const loop{clock::time_point{}, 100};
    std::vector<double> corrected, as_sent;
    clock::time_point free{};
    for (std::size_t i = 0; i < 1'000; ++i) {
        auto const sent = std::max(loop.due(i), free);
        free = sent + (i == 100 ? 1'000ms : 1ms);
        corrected.push_back(loop.latency_ms(i, free));
        as_sent.push_back(std::chrono::duration<double, std::milli>(free - sent).count());
    }
    auto const honest = percentiles_of(corrected), naive = percentiles_of(as_sent);
    CHECK(naive.p99 == doctest::Approx(1));
    CHECK(honest.p50 == doctest::Approx(1));
    CHECK(honest.p99 == doctest::Approx(910));  // ten waited longer, each 10 ms - 1 ms more than the next
    CHECK(honest.max == doctest::Approx(1'000));
}

TEST_CASE("a request that is not answered holds up none of those after it")
{
    std::latch others{2};
    open_load load{1'000, 3, [&] {
                       return [&](std::size_t number) {
                           if (number > 0) others.count_down();
                           else others.wait();
                       };
                   }};
    while (!load.finished()) std::this_thread::yield();
    CHECK(load.answers().size() == 3);
}

TEST_CASE("keys are UUIDs, of version 4 or in the order of time of version 7")
{
    key_maker random{false, 1}, ordered{true, 1};
    std::vector<std::string> made;
    for (int i = 0; i < 100; ++i) made.push_back(random.make());
    std::ranges::sort(made);
    CHECK(std::ranges::adjacent_find(made) == made.end());
    for (auto const& key : {made.front(), ordered.make()}) {
        REQUIRE(key.size() == 36);
        for (std::size_t const at : {8U, 13U, 18U, 23U}) CHECK(key[at] == '-');
        CHECK(key[19] == '8');
        CHECK(key.find_first_not_of("0123456789abcdef-") == std::string::npos);
    }
    CHECK(made.front()[14] == '4');
    auto const first = ordered.make();
    CHECK(first[14] == '7');
    // Of the same instant or a later one; what follows the instant is random.
    CHECK(ordered.make().substr(0, 13) >= first.substr(0, 13));
    CHECK(first.substr(0, 13) > "0190");  // it is later than 2024
}

TEST_CASE("the first quarter begins when something is counted, not when the service is started")
{
    growth const series{{0, 0}, {9, 10}, {10, 40}, {11, 110}, {12, 160}};
    CHECK(first_quarter(series, 160) == doctest::Approx(30));
    CHECK(rate_between(series, 120, 160) == 0);  // too short to tell
}
