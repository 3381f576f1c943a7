// Which element of an array is which: as it came, as its type read it, and as a step left it. So that an element that
// moved, or was changed, keeps the members that its type does not know. The rules are those of docs/data.md.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace skald::core {

/// Whether its `id` or `uuid` says that it is another object. One that had none, or an empty one, has been given it.
bool is_another(nlohmann::json const& before, nlohmann::json const& after);

/// For each element of one array, the index of the same element in another.
using element_pairs = std::vector<std::optional<std::size_t>>;

/// For each element of `after`, which one of `before` it was; nothing where it is new.
element_pairs pair_changed(nlohmann::json::array_t const& before, nlohmann::json::array_t const& after);

/// For each element of `known`, which one of `whole` a type read it from; nothing where that can't be told.
element_pairs pair_known(nlohmann::json::array_t const& known, nlohmann::json::array_t const& whole);

}  // namespace skald::core
