// Why a saga is where it is, in words, derived from what its home knows. Pure: tested case by case without a database.
#pragma once

#include "core/identity.hpp"
#include "core/instant.hpp"
#include "core/transition.hpp"

#include <skald/definition.hpp>

#include <optional>
#include <string>
#include <vector>

namespace skald::admin {

/// What the home knows about a step, or its compensation.
struct step_record
{
    core::step_status status{};
    int attempts{};
    std::string error;
    core::instant at{};
    std::string service{};  // that reported it; not the plan's if a delivery went astray
};

struct step_facts
{
    std::string name;
    std::string service;
    step_kind kind{};
    std::optional<step_record> record;  // nothing: not reported yet
    std::optional<step_record> compensation;
};

/// The latest operator command for the saga.
struct command_facts
{
    std::string action;
    std::string by;
    std::string reason;
    core::instant at{};
};

struct saga_facts
{
    core::saga_id id;
    std::string definition;
    core::saga_state status{};
    std::string reason;
    core::instant created_at{};
    core::instant now{};  // the home's clock
    std::optional<core::instant> finished_at;
    std::optional<core::instant> deadline;
    std::optional<command_facts> command;
    bool can_be_cancelled{};
    bool past_pivot{};
    std::vector<step_facts> steps;  // in the itinerary's order
};

/// One to three sentences: where the saga is and why, and what to do if an operator has to act.
std::string explain(saga_facts const& saga);

/// "3 min", "2 h", "40 s": for people.
std::string in_words(std::chrono::microseconds time);

}  // namespace skald::admin
