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
    bool is_open{};  // no violation, but what could not be found out
};

/// Ordered by rule, the most telling first. Where the time of the run was over, what is missing may only be slow: open.
std::vector<violation> judge(plan const& planned, std::vector<spoilt_message> const& spoilt, seen const& shown);

}  // namespace skald::conform
