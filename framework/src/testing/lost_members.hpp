// What an upcast loses of older data.
#pragma once

#include "runtime/registry.hpp"
#include "testing/simulation.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace skald::testing::inner {

/// The members of the scenario's data, as JSON pointers, that make no difference to what the step reads of it. A member
/// that is null, an empty array or object, or the first value of an enum says nothing. Empty if the step reads the data
/// without an upcast. Throws what an upcast throws.
std::vector<std::string> lost_members(runtime::registry const& steps, scenario const& what, std::string_view step);

}  // namespace skald::testing::inner
