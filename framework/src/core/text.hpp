// Text that PostgreSQL can store, text that a terminal displays without interpreting it, and bytes written as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace skald::core {

/// Well-formed UTF-8 without NUL: what a text column takes.
bool is_storable_text(std::string_view text);

/// The same text if it is storable, else with each offending byte written as \xNN; truncated to `bytes_max`.
std::string storable_text(std::string_view text, std::size_t bytes_max = 1000);

enum class line_feeds { escaped, kept };

/// The same text with control characters (C0, DEL, C1) and bytes that are not UTF-8 written as \n, \r, \t or \xNN.
std::string visible_text(std::string_view text, line_feeds how = line_feeds::escaped);

/// What a library says over several lines, on one: PostgreSQL's `ERROR: ...`, `DETAIL: ...`, without the line that only
/// points at a place in the one before.
std::string in_one_line(std::string_view text);

std::string to_hex(std::string_view bytes);

/// Throws std::invalid_argument if `hex` does not consist of pairs of hexadecimal digits.
std::string from_hex(std::string_view hex);

/// RFC 4648, section 4: with padding, in exactly one form.
std::string to_base64(std::string_view bytes);

/// Nothing if `text` is not what to_base64() writes: another alphabet, line breaks, missing padding, or non-zero unused
/// bits.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace skald::core
