// Rows for people: columns as wide as their contents, two spaces apart.
#pragma once

#include <string>
#include <vector>

namespace skald::tools {

/// The first row is the heading. Control characters in cells are shown as text, so that each row stays on one line.
std::string table(std::vector<std::vector<std::string>> rows);

}  // namespace skald::tools
