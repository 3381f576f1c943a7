// Compares JSON values by their written form, which is not how nlohmann::json compares them; and finds values that
// can't be written.
#pragma once

#include <nlohmann/json.hpp>

namespace skald::core {

/// Whether they are written the same: 1 and 1.0 are not, nor 0.0 and -0.0; a NaN is the same as another.
bool is_same(nlohmann::json const& one, nlohmann::json const& other);

/// Represents every 64-bit integer and every double exactly. nlohmann compares numbers of two kinds by casting one to
/// the other, which loses information: to it, 2^64 - 1 equals -1, and 2^53 + 1 equals 2^53.
long double exactly(nlohmann::json const& number);

/// Whether `known` may be what a type that knows only some members makes of `whole`: what both have is equal.
bool may_be_part_of(nlohmann::json const& known, nlohmann::json const& whole);

/// A number that JSON can't represent: NaN or an infinity; nullptr if there is none.
nlohmann::json const* find_not_finite(nlohmann::json const& value);

/// Throws data_error that says where `found` is in `root`.
[[noreturn]] void refuse_not_finite(nlohmann::json const& root, nlohmann::json const& found);

}  // namespace skald::core
