// What a step leaves in addition to its own writes, depending on the claim's result and on how its run ended: its
// record, the next message or the next try, the report to the home, a parked row. Pure: it fills in the changes of a
// transaction, and is tested without a server.
#pragma once

#include "core/log.hpp"
#include "metrics/step_metrics.hpp"
#include "runtime/step_result.hpp"
#include "runtime/task.hpp"

#include <optional>
#include <random>
#include <string>
#include <string_view>

namespace skald::runtime {

struct circumstances
{
    std::string_view service;
    core::instant now;  // by the database's clock, when the step was claimed
    std::mt19937_64& random;
};

/// The outcome of a delivery, to be logged once its transaction has committed.
struct happened
{
    core::severity level{};
    std::string_view event;
    metrics::step_end end{};
    int attempt{};
    std::string reason{};
    std::string error{};
};

/// Whether the claim's result means that the step must run.
bool must_run(ports::claim_answer const& claimed);

/// `how` is set if must_run(), and if the end was known before (task::refused, or from a run that was rolled back).
/// After COMMIT the delivery can be acked.
happened add_consequences(ports::changes& changes, task const& t, ports::claim_answer const& claimed,
                          std::optional<step_result> how, circumstances const& around);

/// A step's delivery that could not be claimed or recorded.
happened add_refused(ports::changes& changes, task const& t, std::string const& why, circumstances const& around);

}  // namespace skald::runtime
