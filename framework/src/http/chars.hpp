// The character classes of HTTP's grammar (RFC 9110, section 5.6). ASCII only: never the process's locale.
#pragma once

#include <string_view>

namespace skald::http {

constexpr bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

constexpr bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// C0 controls and DEL.
constexpr bool is_control(char c)
{
    auto const byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
}

/// What a header value may contain: text, spaces, tabs, and bytes above ASCII.
constexpr bool is_field_char(char c)
{
    return c == '\t' || !is_control(c);
}

constexpr bool is_token_char(char c)
{
    return is_digit(c) || is_alpha(c) || std::string_view{"!#$%&'*+-.^_`|~"}.find(c) != std::string_view::npos;
}

constexpr bool is_token(std::string_view text)
{
    for (char const c : text)
        if (!is_token_char(c)) return false;
    return !text.empty();
}

constexpr char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

constexpr bool equal_ignoring_case(std::string_view a, std::string_view b)
{
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (to_lower(a[i]) != to_lower(b[i])) return false;
    return true;
}

/// 0..15, or -1.
constexpr int hex_value(char c)
{
    if (is_digit(c)) return c - '0';
    char const low = to_lower(c);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/// Strips the optional whitespace around it.
constexpr std::string_view trimmed(std::string_view text)
{
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

}  // namespace skald::http
