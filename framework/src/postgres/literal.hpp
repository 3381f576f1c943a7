// Values as SQL literals, for the framework's own statements.
//
// A step in two round trips means that BEGIN goes with the claim, and the last writes with COMMIT: several statements
// in one query, for which PostgreSQL's protocol has no parameters. So values are written into the text: here, and
// nowhere else. The text around them is fixed; users' SQL always has parameters.
//
// Relies on standard_conforming_strings = on and client_encoding = UTF8, which every connection of ours sets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skald::postgres {

/// `'it''s'`. Throws std::invalid_argument if the text is not well-formed UTF-8 without NUL: the server would reject
/// that anyway, and it has made quoting unsafe elsewhere (CVE-2025-1094).
std::string literal(std::string_view text);

std::string literal(std::int64_t number);

/// `NULL` if there is none.
std::string literal_or_null(std::optional<std::string> const& text);

/// `'\x00ff'`, a bytea.
std::string bytes_literal(std::string_view bytes);

/// `'{"a","b"}'::text[]`
std::string array_literal(std::vector<std::string> const& texts);
std::string bytes_array_literal(std::vector<std::string> const& values);
std::string array_literal(std::vector<std::int64_t> const& numbers, std::string_view type);
std::string array_literal(std::vector<bool> const& flags);

/// `EXECUTE name(a, b);`, or `EXECUTE name;`
std::string execute(std::string_view name, std::initializer_list<std::string> literals);

}  // namespace skald::postgres
