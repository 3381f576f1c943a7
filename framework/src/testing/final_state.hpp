// What a run leaves behind, for comparison with another run.
#pragma once

#include "testing/simulation.hpp"

#include <skald/testing/proof.hpp>

#include <string>
#include <string_view>
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

/// What a compensated saga has to leave as it was, outside the databases.
std::vector<section> to_be_restored(simulation const& w);

/// Everything. Published messages count as effects, however many copies there are.
final_state final_state_of(simulation& w, std::vector<effect> const& named);

/// The key of the saga that a proof starts.
inline constexpr std::string_view proved_key = "proof";

/// The status of the proved saga, of that definition; empty if there is none. For a message (no definition): of the
/// first saga that there is.
std::string status_of(final_state const& e, std::string_view definition);

/// Whether a message handler has completed what it received.
bool is_completed(final_state const& e, std::string_view service, std::string_view handler);

/// The destination of a message to a handler that its service does not have here. Empty if there is none.
std::string without_handler(simulation& w);

/// A step whose record says anything but "completed".
struct unfinished_step
{
    std::string step, status, error;
};
std::vector<unfinished_step> unfinished_steps(simulation& w);

/// What steps that did not end well said, and what was parked: as lines, now.
std::string errors_of(simulation& w);
std::string parked_in(simulation& w);

/// Row by row: `-` for a missing row, `+` for one that should not be there. Empty if nothing differs.
std::string difference(std::vector<section> const& expected, std::vector<section> const& found);
std::string difference(final_state const& expected, final_state const& found);

}  // namespace skald::testing::inner
