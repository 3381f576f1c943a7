// The itinerary: the plan of a saga and the position in it, as a message carries it, so that a saga finishes on the
// plan that it started with and each service sends to the next without a central hop.
//
// Text form (header x-saga-itinerary, column skald.saga.itinerary), stable:
//
//     forward 2/4 create-order@orders=compensatable charge-payment@payments=compensatable ...
//     back 1/4 ...
//
// The direction, the step it is for (from 1) out of how many, and each step as name@service=kind.
#pragma once

#include "core/assert.hpp"
#include "core/identity.hpp"

#include <skald/definition.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald::core {

inline constexpr std::size_t steps_max = 64;

struct itinerary_step
{
    std::string name;
    std::string service;
    step_kind kind{};
    bool operator==(itinerary_step const&) const = default;
};

struct position
{
    core::direction direction{};
    std::size_t index{};  // from 0
    bool operator==(position const&) const = default;
};

struct itinerary
{
    std::vector<itinerary_step> steps;
    core::position position;

    bool operator==(itinerary const&) const = default;

    itinerary_step const& current() const
    {
        SKALD_ASSERT(position.index < steps.size());  // parse_itinerary() has checked what came from outside
        return steps[position.index];
    }
    itinerary at(core::position there) const { return {steps, there}; }

    /// The step is after the pivot: the saga can only go forward from here.
    bool past_pivot() const { return current().kind == step_kind::retriable; }

    std::string text() const;
};

itinerary make_itinerary(std::span<planned_step const> plan);

/// Nothing if it is malformed or violates the order of kinds.
std::optional<itinerary> parse_itinerary(std::string_view text);

}  // namespace skald::core
