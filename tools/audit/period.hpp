// The time over which two sides are compared.
#pragma once

#include "core/instant.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace skald::audit {

/// From `since` until before `until`. What one side did shortly before a border the other may have noted shortly after
/// it. So the other side is asked about the grace period around the period as well, and we look twice as far around.
struct period
{
    core::instant since{}, until{};
    std::chrono::seconds grace{};

    period widened(int times) const { return {since - times * grace, until + times * grace, grace}; }
};

/// "2026-11-01", "2026-11-01T12:00:00Z", with a fraction of six digits or without. Throws configuration_error.
core::instant read_time(std::string const& option, std::string_view text);

/// What is younger than twice the grace period may still be under way on one of the sides, and is left to the next
/// audit: `until` is no later than that. Without `since`, two days. Throws configuration_error if nothing is left.
period make_period(std::optional<core::instant> since, std::optional<core::instant> until, std::chrono::seconds grace,
                   core::instant now);

}  // namespace skald::audit
