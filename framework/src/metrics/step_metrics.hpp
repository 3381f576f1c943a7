// What is counted of one step of one definition, in one direction.
#pragma once

#include "metrics/counter.hpp"
#include "metrics/histogram.hpp"

#include <array>
#include <string_view>

namespace skald::metrics {

/// How a delivery of a step ended, once its transaction had committed.
enum class step_end {
    completed,  // applied: the one delivery that took effect
    rejected,
    snoozed,
    failed,     // an attempt that will be retried
    exhausted,  // the last attempt failed: the saga compensates
    cancelled,
    duplicate,  // its outcome was known: it had no effect
    put_back,   // sent again for later: its saga is paused, or another transaction has its key
    parked,
    started,        // its first transaction
    unknown,        // the other system can't tell what it has done
    awaits_deploy,  // sent again for later: this process does not have its step, or an older version of it
};
inline constexpr std::array<std::string_view, 12> step_end_names{
    "completed", "rejected", "snoozed", "failed",  "exhausted", "cancelled",
    "duplicate", "put_back", "parked",  "started", "unknown",   "awaits_deploy"};

/// Why a transaction of steps did not commit; the names of runtime::failure, in its order (a test compares them).
inline constexpr std::array<std::string_view, 11> rollback_names{
    "member_ended",    "contended", "lock_timeout", "in_flight",         "suspect", "unavailable",
    "connection_lost", "in_doubt",  "silent",       "transaction_ended", "refused"};

/// Why a step's limit has changed.
enum class limit_reason { conflict, slow, commits, no_conflict };
inline constexpr std::array<std::string_view, 4> limit_reason_names{"conflict", "slow", "commits", "no_conflict"};

/// Threads: any.
struct direction_metrics
{
    counter deliveries;   // that arrived, whatever became of them
    counter redelivered;  // of those, the ones that the broker had delivered before
    counters_by<step_end, step_end_names.size()> ends;
    std::array<counter, rollback_names.size()> rolled_back;
    time_histogram claim, run, commit;                // of one transaction, however many deliveries share it
    size_histogram batch;                             // deliveries in a transaction that committed
    histogram<saga_bounds.size()> call{saga_bounds};  // of an external step, whatever became of it; may last for hours
};

/// Of a step of a definition. A step that is hosted has one from the start, so nothing is looked up later.
struct step_metrics
{
    direction_metrics forward, compensation;

    direction_metrics& of(bool is_forward) { return is_forward ? forward : compensation; }
};

/// The limit of a step, whatever the definition (runtime/step_limit.hpp).
struct limit_metrics
{
    gauge lanes, batch, takes_turns;
    counter conflicts;
    counters_by<limit_reason, limit_reason_names.size()> changes;
};

}  // namespace skald::metrics
