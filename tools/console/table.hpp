// Figures in rows: a table that a narrow screen shows as cards.
#pragma once

#include "markup.hpp"

#include <string>
#include <vector>

namespace skald::console {

struct column
{
    std::string name;
    bool is_number{};
};

/// `rows`: a cell for each column.
markup table(std::string const& caption, std::vector<column> const& columns,
             std::vector<std::vector<markup>> const& rows);

}  // namespace skald::console
