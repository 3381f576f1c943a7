// A circuit breaker: how many calls to another system may begin now. It opens when too many of the recent calls, or a
// few in a row, failed or were slow; lets one call at a time try, later each time that this was too early; and closes
// when that one succeeds. Pure: no threads, no I/O, and the caller passes the time.
#pragma once

#include "core/backoff.hpp"
#include "core/rate_limit.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace skald::core {

struct breaker_settings
{
    std::size_t at_a_time{8};
    std::uint64_t per_second{0};  // 0: no limit

    // It opens when, of at least `calls_min` calls that ended within `window`, at least `bad_percent` were bad. And
    // when so many in a row were, since few calls end where each waits for its time limit; 0: that does not open it.
    std::chrono::milliseconds window{10'000};
    std::uint64_t calls_min{10};
    std::uint64_t bad_percent{50};
    std::uint64_t bad_in_a_row{5};
    std::chrono::milliseconds slow_after{0};  // a call that takes so long is as bad as one that fails; 0: none is slow

    backoff open_for{std::chrono::milliseconds{1'000}, std::chrono::milliseconds{60'000}};  // its ceilings
};

enum class breaker_state {
    closed,     // it is well: calls begin as the limits allow
    open,       // it is ill: none begins
    half_open,  // one at a time tries whether it is well again
};
std::string_view to_string(breaker_state state);

enum class call_result {
    ok,       // it answered, whatever it answered: "declined" is an answer
    failed,   // it did not, or said that it is ill
    nothing,  // says nothing about it: this side ended the call
};

/// What to log or to show, when the state has changed.
struct breaker_change
{
    breaker_state to{};
    std::string why;

    bool operator==(breaker_change const&) const = default;
};

struct breaker_status
{
    breaker_state state{};
    std::string why;  // it opened, the last time; empty: it never did
    std::size_t running{};
    std::uint64_t ok{};  // the counts are since the start; a call that was slow and failed has failed
    std::uint64_t failed{};
    std::uint64_t slow{};
    std::uint64_t nothing{};
    std::uint64_t opened{};
    std::optional<std::chrono::steady_clock::time_point> tries_at{};  // where it is open: when it will be half-open
};

/// Threads: one at a time.
class breaker
{
public:
    using clock = std::chrono::steady_clock;

    /// A call that has begun: goes to ended(), once. One that never ends takes its place forever, so a call needs a
    /// time limit of its own.
    struct call
    {
        clock::time_point began;
        std::uint64_t period;  // how often the breaker had changed its state before
        bool is_trial;
    };

    /// The settings must have been checked: at least one at a time, a window, 1 to 100 percent.
    explicit breaker(breaker_settings settings);

    /// How many calls may begin now.
    std::size_t room(clock::time_point now) const;

    /// When to ask for room again: `now` if there is some; nothing if only the end of a call can make some.
    std::optional<clock::time_point> next_room(clock::time_point now) const;

    /// There must be room.
    [[nodiscard]] call began(clock::time_point now);

    /// Returns how that has changed the state, if so.
    std::optional<breaker_change> ended(call const& which, clock::time_point now, call_result how);

    breaker_state state(clock::time_point now) const;
    breaker_status status(clock::time_point now) const;

private:
    // The window slides by a tenth of itself, and so remembers at least nine tenths of it, at any rate of calls.
    struct slice
    {
        std::int64_t number{-1};
        std::uint64_t calls{};
        std::uint64_t failed{};
        std::uint64_t slow{};
    };
    static constexpr std::int64_t slices = 10;

    std::int64_t slice_number(clock::time_point now) const;
    void record(clock::time_point now, bool failed, bool slow);
    slice recent(clock::time_point now) const;
    std::optional<std::string> why_ill(clock::time_point now) const;
    breaker_change open(clock::time_point now, std::string why);
    breaker_change close(clock::time_point now);

    breaker_settings settings_;
    rate_limit rate_;
    std::array<slice, slices> window_{};
    std::uint64_t bad_in_a_row_{};
    std::size_t running_{};
    bool is_open_{};
    bool trial_runs_{};
    std::uint64_t period_{};
    int openings_{};  // in a row, without having been well for a window in between
    clock::time_point try_at_{};
    std::optional<clock::time_point> closed_at_{};
    breaker_status counts_{};
};

}  // namespace skald::core
