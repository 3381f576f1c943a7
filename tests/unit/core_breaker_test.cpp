// The circuit breaker: what opens it and what does not, whom it lets try, and what closes it.
#include <doctest/doctest.h>

#include "core/breaker.hpp"

#include <string>
#include <vector>

using namespace skald::core;
using namespace std::chrono_literals;
using time_point = breaker::clock::time_point;

namespace {

time_point const start{1'000s};

breaker_settings plain()
{
    return {.at_a_time = 4, .bad_in_a_row = 0, .slow_after = 2s};
}

/// `many` calls, one after the other, each of which takes `took`. Returns what the last one changed.
std::optional<breaker_change> calls(breaker& of, time_point now, int many, call_result how,
                                    std::chrono::milliseconds took = 10ms)
{
    std::optional<breaker_change> changed;
    for (int i = 0; i < many; ++i) changed = of.ended(of.began(now), now + took, how);
    return changed;
}

/// Open since `start`; it tries from `start` + 1 s on.
breaker opened()
{
    breaker made{plain()};
    REQUIRE(calls(made, start - 10ms, 10, call_result::failed).has_value());
    REQUIRE(made.state(start) == breaker_state::open);
    return made;
}

}  // namespace

TEST_CASE("as many calls run as it allows at a time, and one more when one has ended")
{
    breaker of{plain()};
    CHECK(of.room(start) == 4);
    std::vector<breaker::call> running;
    for (int i = 0; i < 4; ++i) running.push_back(of.began(start));
    CHECK(of.room(start) == 0);
    CHECK_FALSE(of.next_room(start).has_value());
    of.ended(running.back(), start, call_result::nothing);
    CHECK(of.room(start) == 1);
    CHECK(of.next_room(start) == start);
}

TEST_CASE("the rate limits what may begin, and it says from when on")
{
    breaker of{{.at_a_time = 100, .per_second = 20}};
    CHECK(of.room(start) == 2);
    static_cast<void>(of.began(start));
    static_cast<void>(of.began(start));
    CHECK(of.room(start) == 0);
    CHECK(of.next_room(start) == start + 50ms);
}

TEST_CASE("half of ten calls opens it; nine that all failed, or four of ten, do not")
{
    SUBCASE("nine")
    {
        breaker of{plain()};
        CHECK_FALSE(calls(of, start, 9, call_result::failed).has_value());
        CHECK(of.state(start) == breaker_state::closed);
    }
    SUBCASE("four of ten")
    {
        breaker of{plain()};
        calls(of, start, 6, call_result::ok);
        CHECK_FALSE(calls(of, start, 4, call_result::failed).has_value());
    }
    SUBCASE("five of ten")
    {
        breaker of{plain()};
        calls(of, start, 5, call_result::ok);
        auto const changed = calls(of, start, 5, call_result::failed);
        CHECK(changed == breaker_change{breaker_state::open, "of 10 calls in 10 s, 5 failed and 0 were slow"});
        CHECK(of.room(start + 10ms) == 0);
    }
}

TEST_CASE("a call that is slow counts as one that failed; where nothing is slow, none does")
{
    breaker of{plain()};
    calls(of, start, 5, call_result::ok, 1'999ms);
    auto const changed = calls(of, start, 5, call_result::ok, 2s);
    REQUIRE(changed.has_value());
    CHECK(changed->why == "of 10 calls in 10 s, 0 failed and 5 were slow");

    breaker patient{{.at_a_time = 4}};
    CHECK_FALSE(calls(patient, start, 100, call_result::ok, 1h).has_value());
}

TEST_CASE("a few in a row that are bad open it, however far apart they are; one that is well in between begins again")
{
    breaker of{{.at_a_time = 4, .slow_after = 2s}};
    for (int i = 0; i < 10; ++i) {
        CHECK_FALSE(calls(of, start + i * 1h, 2, call_result::failed).has_value());
        CHECK_FALSE(calls(of, start + i * 1h, 2, call_result::ok, 2s).has_value());
        CHECK_FALSE(calls(of, start + i * 1h, 1, call_result::nothing).has_value());
        calls(of, start + i * 1h, 1, call_result::ok);
    }
    for (int i = 20; i < 24; ++i) CHECK_FALSE(calls(of, start + i * 1h, 1, call_result::failed).has_value());
    CHECK(calls(of, start + 24h, 1, call_result::nothing) == std::nullopt);
    CHECK(calls(of, start + 24h, 1, call_result::ok, 2s) ==
          breaker_change{breaker_state::open, "5 calls in a row failed or were slow"});
    REQUIRE(of.ended(of.began(start + 25h), start + 25h, call_result::ok).has_value());
    CHECK_FALSE(calls(of, start + 25h, 4, call_result::failed).has_value());
}

TEST_CASE("what ended before the window does not count")
{
    breaker of{plain()};
    calls(of, start, 9, call_result::failed);
    CHECK_FALSE(calls(of, start + 12s, 9, call_result::failed).has_value());
    CHECK(calls(of, start + 20s, 1, call_result::failed).has_value());
}

TEST_CASE("a call that says nothing about the other side counts neither way")
{
    breaker of{plain()};
    calls(of, start, 100, call_result::nothing);
    CHECK_FALSE(calls(of, start, 9, call_result::failed).has_value());
    calls(of, start, 1, call_result::nothing);
    CHECK(of.state(start) == breaker_state::closed);
    CHECK(of.status(start).nothing == 101);
}

TEST_CASE("while it is open nothing begins; then one call at a time does")
{
    auto of = opened();
    CHECK(of.room(start + 999ms) == 0);
    CHECK(of.next_room(start) == start + 1s);
    CHECK(of.status(start).tries_at == start + 1s);
    CHECK(of.state(start + 1s) == breaker_state::half_open);
    CHECK(of.room(start + 1s) == 1);
    auto const trial = of.began(start + 1s);
    CHECK(trial.is_trial);
    CHECK(of.room(start + 1h) == 0);
    CHECK_FALSE(of.next_room(start + 1h).has_value());
}

TEST_CASE("it closes when the call that tries succeeds, and has its limits again")
{
    auto of = opened();
    auto const changed = of.ended(of.began(start + 1s), start + 1s, call_result::ok);
    REQUIRE(changed.has_value());
    CHECK(changed->to == breaker_state::closed);
    CHECK(of.room(start + 1s) == 4);
    INFO("what failed before is forgotten");
    CHECK_FALSE(calls(of, start + 1s, 9, call_result::failed).has_value());
}

TEST_CASE("a trial that says nothing leaves it to the next one")
{
    auto of = opened();
    CHECK_FALSE(of.ended(of.began(start + 1s), start + 2s, call_result::nothing).has_value());
    CHECK(of.state(start + 2s) == breaker_state::half_open);
    CHECK(of.room(start + 2s) == 1);
}

TEST_CASE("a trial that fails or is slow opens it again, for twice as long each time, up to a minute")
{
    auto of = opened();
    auto now = start + 1s;
    for (auto const longer : {2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
        CAPTURE(longer.count());
        bool const is_slow = longer == 8s;
        auto const trial = of.began(now);
        now += is_slow ? 2s : 0s;
        auto const changed = of.ended(trial, now, is_slow ? call_result::ok : call_result::failed);
        REQUIRE(changed.has_value());
        CHECK(changed->to == breaker_state::open);
        CHECK(changed->why ==
              std::string{"the call that tried whether it is well "} + (is_slow ? "took longer than 2 s" : "failed"));
        CHECK(of.next_room(now) == now + longer);
        now += longer;
    }
}

TEST_CASE("ill again soon after it closed, it is open for longer; after a well window, for a second again")
{
    auto of = opened();
    REQUIRE(of.ended(of.began(start + 1s), start + 1s, call_result::ok).has_value());
    REQUIRE(calls(of, start + 5s, 10, call_result::failed, 0ms).has_value());
    CHECK(of.next_room(start + 5s) == start + 7s);
    REQUIRE(of.ended(of.began(start + 7s), start + 7s, call_result::ok).has_value());
    REQUIRE(calls(of, start + 17s, 10, call_result::failed, 0ms).has_value());
    CHECK(of.next_room(start + 17s) == start + 18s);
}

TEST_CASE("a call that began before it opened decides nothing afterwards")
{
    breaker of{plain()};
    auto const early = of.began(start - 1s);
    auto const late = of.began(start - 1s);
    REQUIRE(calls(of, start, 10, call_result::failed, 0ms).has_value());
    CHECK_FALSE(of.ended(early, start + 1s, call_result::ok).has_value());
    CHECK(of.state(start + 1s) == breaker_state::half_open);
    auto const trial = of.began(start + 1s);
    CHECK_FALSE(of.ended(late, start + 1s, call_result::failed).has_value());
    CHECK(of.room(start + 1s) == 0);
    CHECK(of.ended(trial, start + 1s, call_result::ok).has_value());
    CHECK(of.status(start + 1s).running == 0);
}

TEST_CASE("its status is what happened")
{
    auto of = opened();
    auto told = of.status(start);
    CHECK(told.state == breaker_state::open);
    CHECK(told.why == "of 10 calls in 10 s, 10 failed and 0 were slow");
    CHECK(told.failed == 10);
    CHECK(told.opened == 1);
    auto const trial = of.began(start + 1s);
    CHECK(of.status(start + 1s).running == 1);
    of.ended(trial, start + 1s, call_result::ok);
    calls(of, start + 1s, 3, call_result::ok, 5s);
    told = of.status(start + 7s);
    CHECK(told.state == breaker_state::closed);
    CHECK(told.ok == 1);
    CHECK(told.slow == 3);
    CHECK(told.running == 0);
    CHECK_FALSE(told.tries_at.has_value());
    CHECK(to_string(breaker_state::half_open) == "half-open");
}
