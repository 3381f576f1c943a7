// Compares what was seen with what the sagas say: pure.
#pragma once

#include "conform/seen.hpp"
#include "conform/spoilt.hpp"

#include <string>
#include <vector>

namespace skald::conform {

/// One sentence, in parts.
struct violation
{
    std::string rule;  // docs/conform.md, "What it says"
    step_name step;    // of which it was seen; empty: of none
    std::string what;
    std::string remedy;
};

/// Ordered by rule, the most telling first.
std::vector<violation> judge(plan const& planned, std::vector<spoilt_message> const& spoilt, seen const& shown);

}  // namespace skald::conform
