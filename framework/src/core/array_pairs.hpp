// Matches the elements of an array as received, as its type read it, and as a step left it, so that an element that was
// moved or changed keeps its unknown members. The rules are those of docs/data.md.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace skald::core {

/// Whether its `id` or `uuid` says that it is another object. Setting one that was missing or empty does not count.
bool is_another(nlohmann::json const& before, nlohmann::json const& after);

/// For each element of one array, the index of the same element in another.
using element_pairs = std::vector<std::optional<std::size_t>>;

/// For each element of `after`, which one of `before` it was; nothing if it is new.
element_pairs pair_changed(nlohmann::json::array_t const& before, nlohmann::json::array_t const& after);

/// For each element of `known`, which one of `whole` a type read it from; nothing if that can't be determined.
element_pairs pair_known(nlohmann::json::array_t const& known, nlohmann::json::array_t const& whole);

}  // namespace skald::core
