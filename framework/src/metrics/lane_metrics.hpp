// What the lanes of a process count that belongs to no step.
#pragma once

#include "metrics/counter.hpp"
#include "metrics/step_metrics.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace skald::metrics {

/// Why a delivery was parked: those that skald.parked allows (the constraint reason_is_known).
inline constexpr std::array<std::string_view, 14> parked_reasons{
    "malformed",     "unknown_step", "mismatch", "attempts_exhausted", "delivery_limit", "transaction_ended",
    "unprocessable", "unknown_saga", "closed",   "unsigned",           "forged",         "no_key",
    "body_missing",  "body_damaged"};

/// How a COMMIT in doubt turned out, once the guard was asked again.
struct doubt_metrics
{
    counter in_doubt, had_committed, had_rolled_back;
};

/// Threads: any.
struct lane_metrics
{
    std::array<counter, parked_reasons.size()> parked;
    counter reports;   // from other services, of sagas of this home
    counter commands;  // of operators
    // Transactions of both, and of messages that nobody can read.
    std::array<counter, rollback_names.size()> rolled_back;
    doubt_metrics doubts;

    void was_parked(std::string_view reason)
    {
        auto const found = std::ranges::find(parked_reasons, reason);
        if (found != parked_reasons.end()) parked[static_cast<std::size_t>(found - parked_reasons.begin())].add();
    }
};

}  // namespace skald::metrics
