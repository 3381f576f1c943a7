// Amounts, compared as what they are: no double in between.
#pragma once

#include <string_view>

namespace skald::audit {

/// Whether both are decimal numbers (`19.9`, `19.90`, `1990e-2`, `-0`) of exactly the same value.
bool is_same_decimal(std::string_view one, std::string_view other);

}  // namespace skald::audit
