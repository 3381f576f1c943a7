// What the matrix runs: every failpoint that a way passes, with every action, at its first and its second hit.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ways.hpp"

namespace skald::crash {

inline constexpr std::array<std::string_view, 3> services{"orders", "payments", "shipping"};

/// Where a fault can strike: in one of the services, or in the command line that an operator uses.
inline constexpr std::array<std::string_view, 4> places{"orders", "payments", "shipping", "operator"};

inline constexpr std::array<std::string_view, 4> actions{"kill", "throw", "reset", "stop"};

/// One run. Its name says all of it: "step.committed=kill@2/back/payments".
struct plan
{
    std::string point;   // empty: no fault
    std::string action;  // one of `actions`, or sleep:MS
    unsigned hit{1};
    way const* goes{};
    std::size_t place{};

    std::string program() const { return point.empty() ? "" : point + '=' + action + '@' + std::to_string(hit); }
    std::string name() const;
};

/// Nothing if it is not the name of a run.
std::optional<plan> parse_plan(std::string_view name);
way const* find_way(std::string_view name);

/// How often each point was hit in each place, on one way without a fault.
using hit_counts = std::array<std::map<std::string, unsigned>, places.size()>;

/// All runs that follow from what was hit: on a way with a base, only what the base does not hit as often.
std::vector<plan> make_matrix(std::map<std::string_view, hit_counts> const& seen);

/// About half of them: each kill, the first of the other actions at each point, and then these in turn; and what is in
/// `always`, by name.
std::vector<plan> sample(std::vector<plan> const& matrix, std::set<std::string> const& always);

}  // namespace skald::crash
