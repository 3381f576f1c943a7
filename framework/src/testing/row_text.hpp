// A row of a result as text, for people and for comparison.
#pragma once

#include <pqxx/result>
#include <pqxx/row>

#include <string>

namespace skald::testing::inner {

inline std::string text_of(pqxx::row const& row)
{
    std::string text;
    for (pqxx::row::size_type i = 0; i < row.size(); ++i) {
        if (i > 0) text += " | ";
        text += row[i].is_null() ? "<null>" : row[i].c_str();
    }
    return text;
}

}  // namespace skald::testing::inner
