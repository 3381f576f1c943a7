// What a run leaves behind, for comparison with another run.
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
    std::vector<section> state;    // Skald's own: sagas, records, what is parked, what is left over
    std::vector<section> effects;  // the user's

    bool operator==(final_state const&) const = default;
};

/// The user's part: the named effects, or else every row of every user table; plus the outside effects.
std::vector<section> effects_of(simulation& w, std::vector<effect> const& named);

/// Everything. Published messages count as effects, however many copies there are.
final_state final_state_of(simulation& w, std::vector<effect> const& named);

/// The saga's status; empty if there is no saga.
std::string status_of(final_state const& e);

/// Row by row: `-` for a missing row, `+` for one that should not be there. Empty if nothing differs.
std::string difference(std::vector<section> const& expected, std::vector<section> const& found);
std::string difference(final_state const& expected, final_state const& found);

}  // namespace skald::testing::inner
