// The theory of sagas as one pure function: where a saga goes next, given its plan, its position and what happened
// there.
//
// Compensatable steps, then at most one pivot, then retriable steps. Before the pivot commits, a rejection compensates
// the completed steps in reverse order; after it the saga only goes forward.
#pragma once

#include "core/itinerary.hpp"

#include <optional>
#include <string_view>

namespace skald::core {

enum class event {
    completed,           // the step's transaction committed; while compensating: the compensation's did
    rejected,            // a business rejection
    cancelled,           // by an operator or a deadline; while compensating: there was nothing to undo
    attempts_exhausted,  // it failed as often as its policy allows
};

enum class step_status { completed, started, retrying, rejected, parked, cancelled, unknown };

enum class saga_state { running, compensating, completed, compensated, stuck, unknown };

struct transition
{
    step_status recorded{};        // what the guard's record says of this step from now on
    std::optional<position> next;  // the step that gets the next message, if any
    saga_state saga{};             // the saga's state from now on, as far as this step can tell

    bool operator==(transition const&) const = default;
};

/// `event` must be possible at the position: a retriable step can't reject.
transition next(itinerary const& at, event what);

/// The same for a message that belongs to no saga: nothing follows but its record.
transition next_of_message(event what);

std::string_view name_of(step_status status);
std::string_view name_of(saga_state state);

}  // namespace skald::core
