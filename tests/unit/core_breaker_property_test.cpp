// Whatever calls do and in whatever order they end: never more at a time, never more in a second, one trial at a time.
#include <doctest/doctest.h>

#include "core/breaker.hpp"
#include "unit/seeded.hpp"

#include <algorithm>
#include <deque>
#include <vector>

using namespace skald::core;
using namespace std::chrono_literals;

namespace {

/// A dependency that is well or ill for a while, and calls to it; what must always hold is checked at each step.
class story
{
public:
    explicit story(std::uint_fast32_t seed)
        : random_{seed}, settings_{.at_a_time = random_.number(1, 6),
                                   .per_second = random_.coin() ? 0 : random_.number(1, 60),
                                   .calls_min = random_.number(1, 12),
                                   .bad_in_a_row = random_.number(0, 6),
                                   .slow_after = random_.coin() ? 0ms : 500ms},
          breaker_{settings_}
    {}

    void go_on()
    {
        now_ += std::chrono::milliseconds{random_.number(0, random_.number(0, 20) == 0 ? 20'000 : 100)};
        if (random_.number(0, 30) == 0) is_ill_ = !is_ill_;
        auto const may = breaker_.room(now_);
        check_room(may);
        for (auto n = random_.number(0, may); n > 0; --n) begin();
        while (!running_.empty() && random_.coin()) end();
        check_next();
    }

    /// All calls end, the dependency is well: how it is a few trials later.
    breaker_state recovered()
    {
        while (!running_.empty()) end();
        is_ill_ = false;
        for (int trials = 0; trials < 3 && breaker_.state(now_) != breaker_state::closed; ++trials) {
            now_ = breaker_.next_room(now_).value();
            static_cast<void>(breaker_.ended(breaker_.began(now_), now_, call_result::ok));
        }
        return breaker_.state(now_);
    }

    bool has_opened() const { return breaker_.status(now_).opened > 0; }

private:
    void begin()
    {
        auto const state = breaker_.state(now_);
        REQUIRE(state != breaker_state::open);
        running_.push_back(breaker_.began(now_));
        REQUIRE(running_.back().is_trial == (state == breaker_state::half_open));
        REQUIRE(running_.size() <= settings_.at_a_time);
        auto const trials = std::ranges::count_if(running_, [](auto const& one) { return one.is_trial; });
        REQUIRE(trials <= 1);
        began_.push_back(now_);
        while (began_.front() <= now_ - 1s) began_.pop_front();
        if (settings_.per_second > 0)
            REQUIRE(began_.size() <= settings_.per_second + rate_limit::burst_of(settings_.per_second));
    }

    void end()
    {
        auto const which = running_.begin() + static_cast<std::ptrdiff_t>(random_.number(0, running_.size() - 1));
        auto const how = random_.number(0, 9) == 0 ? call_result::nothing
                         : is_ill_                 ? call_result::failed
                                                   : call_result::ok;
        auto const before = breaker_.state(now_);
        bool const is_trial = which->is_trial;
        auto const changed = breaker_.ended(*which, now_, how);
        running_.erase(which);
        if (changed) REQUIRE(changed->to == breaker_.state(now_));
        else REQUIRE(breaker_.state(now_) == before);
        if (before != breaker_state::closed && changed) REQUIRE(is_trial);
    }

    void check_room(std::size_t may)
    {
        REQUIRE(may + running_.size() <= settings_.at_a_time);
        if (breaker_.state(now_) == breaker_state::open) REQUIRE(may == 0);
        if (breaker_.state(now_) == breaker_state::half_open) REQUIRE(may <= 1);
    }

    void check_next()
    {
        auto const next = breaker_.next_room(now_);
        if (!next) {
            REQUIRE(breaker_.room(now_ + 24h) == 0);
            return;
        }
        REQUIRE(*next >= now_);
        REQUIRE(breaker_.room(*next) > 0);
        if (*next > now_) REQUIRE(breaker_.room(*next - 1ns) == 0);
    }

    skald::test::seeded random_;
    breaker_settings settings_;
    breaker breaker_;
    breaker::clock::time_point now_{1'000s};
    bool is_ill_{};
    std::vector<breaker::call> running_;
    std::deque<breaker::clock::time_point> began_;
};

}  // namespace

TEST_CASE("whatever calls do, its limits hold, one call at a time tries, and only that one closes it")
{
    int opened = 0;
    int const stories = skald::test::cases(300);
    for (int one = 0; one < stories; ++one) {
        CAPTURE(one);
        story told{static_cast<std::uint_fast32_t>(one)};
        for (int i = 0; i < 600; ++i) told.go_on();
        opened += told.has_opened() ? 1 : 0;
        REQUIRE(told.recovered() == breaker_state::closed);
    }
    INFO("otherwise these stories tell nothing");
    CHECK(opened > stories / 2);
}
