// What a run has left behind, to be compared with what another has.
#pragma once

#include "testing/simulation.hpp"

#include <skald/testing/proof.hpp>

#include <string>
#include <utility>
#include <vector>

namespace skald::testing::inner {

struct section
{
    std::string title;
    std::vector<std::string> lines;

    bool operator==(section const&) const = default;
};

struct final_state
{
    std::vector<section> state;    // Skald's own: sagas, records, what is parked, what was left
    std::vector<section> effects;  // the user's

    bool operator==(final_state const&) const = default;
};

/// The user's part: the effects that were named, or else every row of every table of theirs; and what is outside.
std::vector<section> effects_of(simulation& w, std::vector<effect> const& named);

/// All of it. `published`: what steps published counts as an effect, whatever the number of copies.
final_state final_state_of(simulation& w, std::vector<effect> const& named);

/// The saga's status; empty where there is none.
std::string status_of(final_state const& e);

/// Row by row: `-` what is missing, `+` what should not be there. Empty where nothing differs.
std::string difference(std::vector<section> const& expected, std::vector<section> const& found);
std::string difference(final_state const& expected, final_state const& found);

}  // namespace skald::testing::inner
