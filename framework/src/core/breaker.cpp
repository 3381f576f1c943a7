#include "core/breaker.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace skald::core {
namespace {

double in_seconds(std::chrono::milliseconds time)
{
    return std::chrono::duration<double>{time}.count();
}

std::string why_bad(bool failed, breaker_settings const& settings)
{
    return failed ? "failed" : fmt::format("took longer than {} s", in_seconds(settings.slow_after));
}

}  // namespace

std::string_view to_string(breaker_state state)
{
    switch (state) {
    case breaker_state::closed: return "closed";
    case breaker_state::open: return "open";
    case breaker_state::half_open: return "half-open";
    }
    return "";
}

breaker::breaker(breaker_settings settings) : settings_{settings}, rate_{settings.per_second}
{
    SKALD_ASSERT(settings.at_a_time > 0 && settings.window.count() >= slices && settings.calls_min > 0);
    SKALD_ASSERT(settings.bad_percent > 0 && settings.bad_percent <= 100);
}

breaker_state breaker::state(clock::time_point now) const
{
    if (!is_open_) return breaker_state::closed;
    return now < try_at_ ? breaker_state::open : breaker_state::half_open;
}

std::size_t breaker::room(clock::time_point now) const
{
    auto const most = std::min(settings_.at_a_time - running_, rate_.room(now));
    switch (state(now)) {
    case breaker_state::closed: return most;
    case breaker_state::open: return 0;
    case breaker_state::half_open: return trial_runs_ ? 0 : std::min<std::size_t>(most, 1);
    }
    return 0;
}

std::optional<breaker::clock::time_point> breaker::next_room(clock::time_point now) const
{
    if (running_ == settings_.at_a_time || trial_runs_) return std::nullopt;
    auto const at = rate_.next(now);
    return is_open_ ? std::max(at, try_at_) : at;
}

breaker::call breaker::began(clock::time_point now)
{
    SKALD_ASSERT(room(now) > 0);
    rate_.take(now);
    ++running_;
    trial_runs_ = is_open_;
    return {now, period_, is_open_};
}

std::optional<breaker_change> breaker::ended(call const& which, clock::time_point now, call_result how)
{
    SKALD_ASSERT(running_ > 0);
    --running_;
    bool const failed = how == call_result::failed;
    bool const is_slow =
        how == call_result::ok && settings_.slow_after.count() > 0 && now - which.began >= settings_.slow_after;
    ++(how == call_result::nothing ? counts_.nothing : failed ? counts_.failed : is_slow ? counts_.slow : counts_.ok);

    // What began before the last change tells how it was then.
    if (which.period != period_) return std::nullopt;
    if (which.is_trial) trial_runs_ = false;
    if (how == call_result::nothing) return std::nullopt;
    if (which.is_trial) {
        if (!failed && !is_slow) return close(now);
        return open(now, "the call that tried whether it is well " + why_bad(failed, settings_));
    }

    record(now, failed, is_slow);
    if (auto why = why_ill(now)) return open(now, *std::move(why));
    return std::nullopt;
}

std::optional<std::string> breaker::why_ill(clock::time_point now) const
{
    if (settings_.bad_in_a_row > 0 && bad_in_a_row_ >= settings_.bad_in_a_row)
        return fmt::format("{} calls in a row failed or were slow", bad_in_a_row_);
    auto const seen = recent(now);
    if (seen.calls < settings_.calls_min || (seen.failed + seen.slow) * 100 < seen.calls * settings_.bad_percent)
        return std::nullopt;
    return fmt::format("of {} calls in {} s, {} failed and {} were slow", seen.calls, in_seconds(settings_.window),
                       seen.failed, seen.slow);
}

breaker_change breaker::open(clock::time_point now, std::string why)
{
    // One that is ill again soon after it closed was never well.
    if (closed_at_ && now - *closed_at_ >= settings_.window) openings_ = 0;
    closed_at_.reset();
    ++openings_;
    ++period_;
    ++counts_.opened;
    is_open_ = true;
    try_at_ = now + settings_.open_for.ceiling(openings_);
    window_.fill({});
    bad_in_a_row_ = 0;
    counts_.why = std::move(why);
    return {breaker_state::open, counts_.why};
}

breaker_change breaker::close(clock::time_point now)
{
    ++period_;
    is_open_ = false;
    closed_at_ = now;
    return {breaker_state::closed, "the call that tried whether it is well succeeded"};
}

std::int64_t breaker::slice_number(clock::time_point now) const
{
    return now.time_since_epoch() / (std::chrono::nanoseconds{settings_.window} / slices);
}

void breaker::record(clock::time_point now, bool failed, bool slow)
{
    auto const number = slice_number(now);
    auto& here = window_[static_cast<std::size_t>(number % slices)];
    if (here.number != number) here = {number};
    ++here.calls;
    here.failed += failed ? 1 : 0;
    here.slow += slow ? 1 : 0;
    bad_in_a_row_ = failed || slow ? bad_in_a_row_ + 1 : 0;
}

breaker::slice breaker::recent(clock::time_point now) const
{
    auto const newest = slice_number(now);
    slice sum{newest};
    for (auto const& one : window_) {
        if (one.number <= newest - slices || one.number < 0) continue;
        sum.calls += one.calls;
        sum.failed += one.failed;
        sum.slow += one.slow;
    }
    return sum;
}

breaker_status breaker::status(clock::time_point now) const
{
    auto told = counts_;
    told.state = state(now);
    told.running = running_;
    if (told.state == breaker_state::open) told.tries_at = try_at_;
    return told;
}

}  // namespace skald::core
