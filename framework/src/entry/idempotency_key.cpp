#include "entry/idempotency_key.hpp"

#include <optional>

#include "http/chars.hpp"

namespace skald::entry_detail {
namespace {

using http::is_digit;
using http::trimmed;

constexpr std::string_view missing = "The Idempotency-Key header is missing.";
constexpr std::string_view empty = "The Idempotency-Key is empty.";
constexpr std::string_view too_long = "The Idempotency-Key is longer than 180 bytes.";
constexpr std::string_view unprintable = "The Idempotency-Key may only hold printable ASCII.";
constexpr std::string_view badly_quoted = "The Idempotency-Key is badly quoted.";
constexpr std::string_view dots = "The Idempotency-Key may be neither . nor .., which no client can ask for in a path.";
constexpr std::string_view given_twice = "Idempotency-Key must be given once.";
constexpr std::string_view not_one_key = "The Idempotency-Key header must hold one key and nothing else.";

bool is_printable(char c)
{
    return c >= 0x20 && c <= 0x7e;
}

/// What a bare key may contain. More than a token, because UUIDs, paths and base64 are sent bare, but none of the bytes
/// that delimit a structured field.
bool is_bare_char(char c)
{
    return c > 0x20 && c <= 0x7e && std::string_view{"\",;\\"}.find(c) == std::string_view::npos;
}

/// Takes a quoted string off the front of `rest`; nothing if the quoting is invalid.
std::optional<std::string> take_quoted(std::string_view& rest)
{
    std::string text;
    rest.remove_prefix(1);
    while (!rest.empty()) {
        char c = rest.front();
        rest.remove_prefix(1);
        if (c == '"') return text;
        if (c == '\\') {
            if (rest.empty() || (rest.front() != '"' && rest.front() != '\\')) return {};
            c = rest.front();
            rest.remove_prefix(1);
        }
        text += c;
    }
    return {};
}

std::string_view take_bare(std::string_view& rest)
{
    std::size_t size = 0;
    while (size < rest.size() && is_bare_char(rest[size])) ++size;
    auto const taken = rest.substr(0, size);
    rest.remove_prefix(size);
    return taken;
}

bool take_parameter_name(std::string_view& rest)
{
    auto const starts = [](char c) { return (c >= 'a' && c <= 'z') || c == '*'; };
    auto const continues = [&](char c) { return starts(c) || is_digit(c) || c == '_' || c == '-' || c == '.'; };
    if (rest.empty() || !starts(rest.front())) return false;
    while (!rest.empty() && continues(rest.front())) rest.remove_prefix(1);
    return true;
}

/// Structured-field parameters, `;name` or `;name=value`, to the end of `rest`.
bool only_parameters(std::string_view rest)
{
    while (!rest.empty()) {
        if (rest.front() != ';') return false;
        rest.remove_prefix(1);
        while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
        if (!take_parameter_name(rest)) return false;
        if (rest.empty() || rest.front() != '=') continue;
        rest.remove_prefix(1);
        if (rest.empty()) return false;
        if (rest.front() == '"' ? !take_quoted(rest) : take_bare(rest).empty()) return false;
    }
    return true;
}

idempotency_key refused(std::string_view why)
{
    return {.value = {}, .refusal = why};
}

}  // namespace

idempotency_key parse_idempotency_key(std::string_view header_value)
{
    auto rest = trimmed(header_value);
    if (rest.empty()) return refused(missing);
    for (char const c : rest)
        if (!is_printable(c)) return refused(unprintable);

    std::string key;
    if (rest.front() == '"') {
        auto quoted = take_quoted(rest);
        if (!quoted) return refused(badly_quoted);
        if (quoted->empty()) return refused(empty);
        key = *std::move(quoted);
    }
    else {
        key = take_bare(rest);
        if (!rest.empty() && (rest.front() == '"' || rest.front() == '\\')) return refused(badly_quoted);
    }
    if (key.empty() || !only_parameters(rest)) return refused(not_one_key);
    if (key == "." || key == "..") return refused(dots);
    if (key.size() > idempotency_key_bytes_max) return refused(too_long);
    return {.value = std::move(key), .refusal = {}};
}

idempotency_key idempotency_key_of(http::request const& r)
{
    std::string const* value = nullptr;
    for (auto const& [name, text] : r.headers) {
        if (!http::equal_ignoring_case(name, "Idempotency-Key")) continue;
        if (value != nullptr) return refused(given_twice);
        value = &text;
    }
    if (value == nullptr) return {.value = {}, .refusal = missing, .is_missing = true};
    return parse_idempotency_key(*value);
}

}  // namespace skald::entry_detail
