// The rows of a cursor in our transaction, one after the other: a few thousand of them in memory.
#pragma once

#include "postgres/connection.hpp"

#include <pqxx/result>

#include <string>

namespace skald::audit {

/// Throws what pqxx throws.
class cursor
{
public:
    /// It has been declared.
    cursor(postgres::connection& c, std::string name) : connection_{&c}, name_{std::move(name)} {}

    /// To the first or the next row. False: there are no more.
    bool advance();

    pqxx::row row() const { return rows_[at_]; }
    pqxx::result const& rows() const { return rows_; }

private:
    postgres::connection* connection_;
    std::string name_;
    pqxx::result rows_;
    pqxx::result::size_type at_{};
    bool is_over_{};
};

/// "text" with "@word@" replaced.
std::string replaced(std::string text, std::string const& word, std::string const& by);

}  // namespace skald::audit
