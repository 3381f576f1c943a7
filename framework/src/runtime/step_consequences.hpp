// What a step leaves behind besides its own writes, by what the claim said and how its run ended: its record, the next
// message or the next try, what the home is told, a parked row. Pure: it fills in the changes of a transaction, and is
// tested without a server.
#pragma once

#include "core/log.hpp"
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

/// What became of a delivery, to be logged once its transaction has committed.
struct happened
{
    core::severity level{};
    std::string_view event;
    int attempt{};
    std::string reason{};
    std::string error{};
};

/// Whether the claim's answer means that the step is to be run.
bool must_run(ports::claim_answer const& claimed);

/// `how` is set where must_run(), and where the end was known before (task::refused, or from a run that was rolled
/// back). After COMMIT the delivery is settled.
happened add_consequences(ports::changes& changes, task const& t, ports::claim_answer const& claimed,
                          std::optional<step_result> how, circumstances const& around);

/// A step's delivery that could not be claimed, or not be recorded.
happened add_unsettled(ports::changes& changes, task const& t, std::string const& why, circumstances const& around);

/// A delivery that is no step's, or not any more, kept aside.
ports::parked_delivery to_park(task const& t, std::string_view reason, std::string const& why);

}  // namespace skald::runtime
