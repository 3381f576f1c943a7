#include "http/head.hpp"

#include <utility>

#include "http/chars.hpp"

namespace skald::http {
namespace {

using namespace std::string_view_literals;

constexpr refusal bare_line_feed{400, "Lines must end in CRLF."};
constexpr refusal request_line_too_long{414, "The request line is too long."};
constexpr refusal head_too_large{431, "The header is too large."};
constexpr refusal too_many_fields{431, "The header has too many fields."};
constexpr refusal bad_request_line{400, "The request line is malformed."};
constexpr refusal bad_version{505, "Only HTTP/1.1 and HTTP/1.0 are spoken here."};
constexpr refusal unescaped_target{400, "The request target holds bytes that must be escaped."};
constexpr refusal folded_line{400, "Header lines must not be folded."};
constexpr refusal bad_field_name{400, "A header's name is malformed."};
constexpr refusal bad_field_value{400, "A header's value holds a control byte."};

/// Takes a line off the front of `rest`; nothing if it does not end in CRLF.
std::optional<std::string_view> take_line(std::string_view& rest)
{
    auto const end = rest.find('\n');
    if (end == std::string_view::npos || end == 0 || rest[end - 1] != '\r') return {};
    auto const line = rest.substr(0, end - 1);
    rest.remove_prefix(end + 1);
    return line;
}

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

    head.method = method;
    head.target = target;
    head.minor_version = minor;
    return {};
}

std::optional<refusal> parse_field(std::string_view line, request_head& head)
{
    if (line.front() == ' ' || line.front() == '\t') return folded_line;

    // A space is not a token character, so "Content-Length : 5" is refused here.
    auto const colon = line.find(':');
    auto const name = line.substr(0, colon);
    if (colon == std::string_view::npos || !is_token(name)) return bad_field_name;

    auto const value = trimmed(line.substr(colon + 1));
    for (char const c : value)
        if (!is_field_char(c)) return bad_field_value;
    head.headers.emplace_back(name, value);
    return {};
}

}  // namespace

std::variant<std::size_t, refusal> head_scanner::scan(std::string_view bytes)
{
    for (; scanned_ < bytes.size(); ++scanned_) {
        // Check the limits first, so that bytes past them are never read.
        char const c = bytes[scanned_];
        std::size_t const column = scanned_ - line_start_;
        if (in_request_line_ && is_beyond_request_line(column, c)) return request_line_too_long;
        if (scanned_ >= limits_.header_bytes_max) return head_too_large;
        if (c != '\n') continue;

        if (scanned_ == line_start_ || bytes[scanned_ - 1] != '\r') return bare_line_feed;
        bool const is_empty_line = column == 1;
        if (is_empty_line && in_request_line_) return bad_request_line;
        line_start_ = scanned_ + 1;
        in_request_line_ = false;
        if (is_empty_line) return ++scanned_;
    }
    return std::size_t{0};
}

bool head_scanner::is_beyond_request_line(std::size_t column, char c) const
{
    auto const end = limits_.request_line_bytes_max;
    return column == end ? c != '\r' : column > end && c != '\n';
}

std::variant<request_head, refusal> parse_head(std::string_view text, http_limits const& limits)
{
    request_head head;
    auto const request_line = take_line(text);
    if (!request_line) return bare_line_feed;
    if (auto const no = parse_request_line(*request_line, head)) return *no;

    for (;;) {
        auto const line = take_line(text);
        if (!line) return bare_line_feed;
        if (line->empty()) break;
        if (head.headers.size() == limits.header_count_max) return too_many_fields;
        if (auto const no = parse_field(*line, head)) return *no;
    }
    if (auto const no = apply_head_rules(head, limits)) return *no;
    return head;
}

}  // namespace skald::http
