#include "core/transition.hpp"

#include "core/assert.hpp"

#include <array>

namespace skald::core {
namespace {

// Everything before a step that can reject is compensatable, so compensation simply moves one step to the left.
transition step_back(std::size_t from, step_status recorded)
{
    if (from == 0) return {recorded, std::nullopt, saga_state::compensated};
    return {recorded, position{direction::back, from - 1}, saga_state::compensating};
}

transition next_forward(itinerary const& at, event what)
{
    auto const index = at.position.index;
    switch (what) {
    case event::completed:
        if (index + 1 == at.steps.size()) return {step_status::completed, std::nullopt, saga_state::completed};
        return {step_status::completed, position{direction::forward, index + 1}, saga_state::running};
    case event::rejected: return step_back(index, step_status::rejected);
    case event::cancelled: return step_back(index, step_status::cancelled);
    case event::attempts_exhausted:
        if (at.past_pivot()) return {step_status::parked, std::nullopt, saga_state::stuck};
        return step_back(index, step_status::rejected);
    }
    assertion_failed("every event is handled", __FILE__, __LINE__);
}

transition next_back(itinerary const& at, event what)
{
    SKALD_ASSERT(at.current().kind == step_kind::compensatable);  // nothing else was passed on the way forward
    SKALD_ASSERT(what != event::rejected);                        // a compensation can't reject
    if (what == event::attempts_exhausted) return {step_status::parked, std::nullopt, saga_state::stuck};
    return step_back(at.position.index, what == event::cancelled ? step_status::cancelled : step_status::completed);
}

}  // namespace

transition next(itinerary const& at, event what)
{
    SKALD_ASSERT(at.position.index < at.steps.size());
    // After the pivot a saga can't compensate: the code that claims or runs a step makes sure that no rejection or
    // cancellation gets here.
    SKALD_ASSERT(!((what == event::rejected || what == event::cancelled) && at.past_pivot()));
    return at.position.direction == direction::forward ? next_forward(at, what) : next_back(at, what);
}

transition next_of_message(event what)
{
    switch (what) {
    case event::completed: return {step_status::completed, std::nullopt, saga_state::completed};
    case event::rejected: return {step_status::rejected, std::nullopt, saga_state::completed};
    case event::cancelled: return {step_status::cancelled, std::nullopt, saga_state::completed};
    case event::attempts_exhausted: return {step_status::parked, std::nullopt, saga_state::stuck};
    }
    assertion_failed("every event is handled", __FILE__, __LINE__);
}

std::string_view name_of(step_status status)
{
    constexpr std::array<std::string_view, 7> names{"completed", "started",   "retrying", "rejected",
                                                    "parked",    "cancelled", "unknown"};
    return names[static_cast<std::size_t>(status)];
}

std::string_view name_of(saga_state state)
{
    constexpr std::array<std::string_view, 6> names{"running",     "compensating", "completed",
                                                    "compensated", "stuck",        "unknown"};
    return names[static_cast<std::size_t>(state)];
}

}  // namespace skald::core
