#include "table.hpp"

namespace skald::console {

markup table(std::string const& caption, std::vector<column> const& columns,
             std::vector<std::vector<markup>> const& rows)
{
    markup names, lines;
    for (auto const& one : columns)
        names += element("th", {{"scope", "col"}, {"class", one.is_number ? "n" : "t"}}, one.name);
    for (auto const& row : rows) {
        markup cells;
        for (std::size_t i = 0; i < row.size() && i < columns.size(); ++i)
            cells +=
                element("td", {{"class", columns[i].is_number ? "n" : "t"}, {"data-name", columns[i].name}}, row[i]);
        lines += element("tr", cells);
    }
    return element("table",
                   element("caption", caption) + element("thead", element("tr", names)) + element("tbody", lines));
}

}  // namespace skald::console
