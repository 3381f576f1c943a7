// The acts that a saga's page offers, and what the forms of all acts ask for.
#pragma once

#include "page.hpp"
#include "saga_story.hpp"

namespace skald::console {

markup saga_acts(context const& with, saga_story const& story);

/// The page on which an operator says what a call has done.
std::string resolve_link(std::string const& service, core::saga_id const& saga, std::string const& step);

/// `reason`, and `confirm`, into which `proof` is to be typed.
markup reason_field(context const& with, std::string_view words);
markup confirm_field(std::string_view words, std::string const& proof);

/// What is wrong with the reason that was given; empty: nothing.
std::string flaw_of_reason(std::string const& reason);

}  // namespace skald::console
