#include "http/head.hpp"

#include <algorithm>

#include "http/chars.hpp"

namespace skald::http {
namespace {

using namespace std::string_view_literals;

constexpr refusal request_line_too_long{414, "The request line is too long."};
constexpr refusal head_too_large{431, "The header is too large."};
constexpr refusal too_many_fields{431, "The header has too many fields."};
constexpr refusal bad_request_line{400, "The request line is malformed."};
constexpr refusal bad_version{505, "Only HTTP/1.1 and HTTP/1.0 are supported."};
constexpr refusal unescaped_target{400, "The request target contains bytes that must be escaped."};
constexpr refusal folded_line{400, "Header lines must not be folded."};
constexpr refusal bad_field_name{400, "A header's name is malformed."};
constexpr refusal bad_field_value{400, "A header's value contains a control byte."};

constexpr std::size_t line_end_bytes = 2;

/// "HTTP/1.1" -> 1; -1 for any other version, -2 for anything else.
int minor_version_of(std::string_view text)
{
    if (text == "HTTP/1.1"sv) return 1;
    if (text == "HTTP/1.0"sv) return 0;
    bool const has_shape =
        text.size() == 8 && text.starts_with("HTTP/"sv) && is_digit(text[5]) && text[6] == '.' && is_digit(text[7]);
    return has_shape ? -1 : -2;
}

std::optional<refusal> parse_request_line(std::string_view line, request_head& head)
{
    auto const first = line.find(' ');
    auto const last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) return bad_request_line;

    auto const method = line.substr(0, first);
    auto const target = line.substr(first + 1, last - first - 1);
    int const minor = minor_version_of(line.substr(last + 1));
    if (!is_token(method) || minor == -2) return bad_request_line;
    if (minor == -1) return bad_version;
    // Bytes above ASCII are refused too: percent-encoding is unambiguous, and no proxy rewrites it.
    for (char const c : target)
        if (is_control(c) || c == ' ' || static_cast<unsigned char>(c) > 0x7f) return unescaped_target;
    if (target.empty()) return bad_request_line;

    head.message.method = method;
    head.message.target = target;
    head.minor_version = minor;
    return {};
}

}  // namespace

or_refusal<std::pair<std::string_view, std::string_view>> parse_field(std::string_view line)
{
    if (line.starts_with(' ') || line.starts_with('\t')) return folded_line;

    // A space is not a token character, so "Content-Length : 5" is refused here.
    auto const colon = line.find(':');
    auto const name = line.substr(0, colon);
    if (colon == std::string_view::npos || !is_token(name)) return bad_field_name;

    auto const value = trimmed(line.substr(colon + 1));
    if (!std::ranges::all_of(value, is_field_char)) return bad_field_value;
    return std::pair{name, value};
}

or_refusal<arrival> head_reader::read(incoming_bytes& from, http_limits const& limits)
{
    for (;;) {
        auto const taken = take_line(from, limits);
        if (!taken) return taken.error();
        if (!*taken) return arrival::incomplete;
        auto const line = **taken;
        if (line.empty() && bytes_ > 0) break;
        if (auto const no = add(line, limits)) return *no;
        bytes_ += line.size() + line_end_bytes;
    }
    if (auto const no = apply_head_rules(head_, limits)) return *no;
    return arrival::complete;
}

or_refusal<std::optional<std::string_view>> head_reader::take_line(incoming_bytes& from,
                                                                   http_limits const& limits) const
{
    // What the line may have, so that it and the empty line fit, with their ends.
    auto const left = limits.header_bytes_max - std::min(bytes_ + 2 * line_end_bytes, limits.header_bytes_max);
    if (bytes_ == 0 && limits.request_line_bytes_max < left)
        return from.take_line(limits.request_line_bytes_max, request_line_too_long);
    return from.take_line(left, head_too_large);
}

std::optional<refusal> head_reader::add(std::string_view line, http_limits const& limits)
{
    if (bytes_ == 0) return parse_request_line(line, head_);
    auto& headers = head_.message.headers;
    if (headers.size() == limits.header_count_max) return too_many_fields;
    auto const field = parse_field(line);
    if (!field) return field.error();
    headers.emplace_back(field->first, field->second);
    return {};
}

}  // namespace skald::http
