#include "table.hpp"

#include "core/text.hpp"

#include <algorithm>
#include <cstddef>

namespace skald::tools {
namespace {

// Counts characters, not bytes, of UTF-8 text.
std::size_t width_of(std::string const& text)
{
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

}  // namespace

std::string table(std::vector<std::vector<std::string>> rows)
{
    for (auto& row : rows)
        for (auto& cell : row) cell = core::visible_text(cell);
    std::vector<std::size_t> widths;
    for (auto const& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
    }
    std::string out;
    for (auto const& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += row[i] + std::string(widths[i] - width_of(row[i]) + 2, ' ');
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + '\n';
    }
    if (!out.empty()) out.pop_back();
    return out;
}

}  // namespace skald::tools
