// A point in time as headers and query results carry it: UTC, RFC 3339, always to the microsecond.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace skald::core {

/// By the clock of the server that it came from; Skald compares deadlines only with the database's clock.
using instant = std::chrono::sys_time<std::chrono::microseconds>;

/// "2026-01-31T12:00:00.000000Z" and no other form: 27 characters, a date that exists, no leap second.
std::optional<instant> parse_instant(std::string_view text);

/// In that form. Years 0001 to 9999: a time outside that range is written as the first or the last time within it.
std::string write_instant(instant at);

/// `wait`, or the time left until the deadline if that is less: a delivery that waits for its next try comes back at
/// the deadline at the latest. Rounded up, so that the deadline has passed by then.
inline std::chrono::milliseconds wait_within(std::optional<instant> deadline, instant now,
                                             std::chrono::milliseconds wait)
{
    using std::chrono::milliseconds;
    if (!deadline) return wait;
    return std::clamp(std::chrono::ceil<milliseconds>(*deadline - now), milliseconds{0},
                      std::max(wait, milliseconds{0}));
}

}  // namespace skald::core
