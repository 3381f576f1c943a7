// Counters and histograms, which threads share without a lock.
#include "metrics/counter.hpp"
#include "metrics/histogram.hpp"
#include "metrics/lane_metrics.hpp"
#include "metrics/publish_metrics.hpp"
#include "metrics/step_metrics.hpp"
#include "ports/transport.hpp"
#include "runtime/policy.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

using namespace skald;
using namespace std::chrono_literals;

TEST_CASE("a value on a bound belongs to that bound's bucket, and one above all of them to the last")
{
    metrics::size_histogram h;
    for (double const value : {1.0, 1.5, 2.0, 128.0, 129.0}) h.observe(value);
    auto const now = h.now();
    CHECK(now.counts == std::vector<std::uint64_t>{1, 2, 0, 0, 0, 0, 0, 1, 1});
    CHECK(now.sum == 261.5);
}

TEST_CASE("durations are observed in seconds")
{
    metrics::time_histogram h;
    h.observe(500us);
    h.observe(2s);
    auto const now = h.now();
    CHECK(now.counts.front() == 1);
    CHECK(now.counts.at(11) == 1);  // up to 2.5 s
    CHECK(now.sum == doctest::Approx(2.0005));
}

TEST_CASE("nothing is lost when many threads count")
{
    metrics::counter c;
    metrics::time_histogram h;
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] {
                for (int n = 0; n < 10'000; ++n) {
                    c.add();
                    h.observe(1.0);
                }
            });
    }
    auto const now = h.now();
    CHECK(c.value() == 40'000);
    CHECK(std::accumulate(now.counts.begin(), now.counts.end(), std::uint64_t{}) == 40'000);
    CHECK(now.sum == 40'000);
}

TEST_CASE("the reasons of rollbacks are the names of the failures, in their order")
{
    for (std::size_t n = 0; n < metrics::rollback_names.size(); ++n)
        CHECK(runtime::name_of(static_cast<runtime::failure>(n)) == metrics::rollback_names.at(n));
    CHECK(runtime::name_of(static_cast<runtime::failure>(metrics::rollback_names.size())).empty());
}

TEST_CASE("the answers of the broker are in the order of their names")
{
    using enum ports::publish_status;
    CHECK(metrics::publish_names.at(static_cast<std::size_t>(confirmed)) == "confirmed");
    CHECK(metrics::publish_names.at(static_cast<std::size_t>(returned)) == "returned");
    CHECK(metrics::publish_names.at(static_cast<std::size_t>(nacked)) == "nacked");
    CHECK(metrics::publish_names.at(static_cast<std::size_t>(refused)) == "refused");
    CHECK(metrics::publish_names.at(static_cast<std::size_t>(barred)) == "barred");
    CHECK(metrics::publish_names.at(static_cast<std::size_t>(unresolved)) == "unresolved");
}

TEST_CASE("a parked delivery counts under its reason, and a reason that is not known counts nowhere")
{
    metrics::lane_metrics m;
    m.was_parked("body_damaged");
    m.was_parked("made up");
    std::uint64_t all = 0;
    for (auto const& one : m.parked) all += one.value();
    CHECK(all == 1);
    CHECK(m.parked.back().value() == 1);
}
