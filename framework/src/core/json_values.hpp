// Values of JSON compared as what they are written as, which is not how nlohmann::json compares them; and what can't be
// written.
#pragma once

#include <nlohmann/json.hpp>

namespace skald::core {

/// Whether they are written alike: 1 and 1.0 are not, nor 0.0 and -0.0; a NaN is like another.
bool is_same(nlohmann::json const& one, nlohmann::json const& other);

/// Every 64-bit whole number and every double, exactly. nlohmann compares numbers of two kinds by casting one to the
/// other, which is a loss: to it, 2^64 - 1 equals -1, and 2^53 + 1 equals 2^53.
long double exactly(nlohmann::json const& number);

/// Whether `known` may be what a type that knows some of its members makes of `whole`: what both have is equal.
bool may_be_part_of(nlohmann::json const& known, nlohmann::json const& whole);

/// A number that JSON has no form for: NaN or an infinity; nullptr where there is none.
nlohmann::json const* find_not_finite(nlohmann::json const& value);

/// Throws data_error that says where `found` is in `root`.
[[noreturn]] void refuse_not_finite(nlohmann::json const& root, nlohmann::json const& found);

}  // namespace skald::core
