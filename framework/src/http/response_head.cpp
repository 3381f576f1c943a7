#include "http/response_head.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "http/chars.hpp"
#include "http/status.hpp"

namespace skald::http {
namespace {

using header_view = std::pair<std::string_view, std::string_view>;

/// Written by response_head() from the response's other members, or by the connection.
constexpr std::array<std::string_view, 8> own_headers{"Connection", "Content-Length",    "Content-Type", "Date",
                                                      "Keep-Alive", "Transfer-Encoding", "Trailer",      "Upgrade"};

/// On every response, unless the handler set its own.
constexpr std::array<header_view, 3> defaults{{
    {"Server", "skald"},
    {"X-Content-Type-Options", "nosniff"},
    {"Cache-Control", "no-store"},
}};

bool is_own(std::string_view name)
{
    return std::any_of(own_headers.begin(), own_headers.end(),
                       [&](std::string_view own) { return equal_ignoring_case(own, name); });
}

bool is_field_value(std::string_view value)
{
    return std::all_of(value.begin(), value.end(), is_field_char);
}

bool has_header(response const& message, std::string_view name)
{
    return std::any_of(message.headers.begin(), message.headers.end(),
                       [&](auto const& field) { return equal_ignoring_case(field.first, name); });
}

/// "Sat, 31 Jan 2026 12:00:00 GMT", independent of the process's locale.
std::string http_date(std::chrono::sys_seconds when)
{
    constexpr std::array<std::string_view, 7> days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    std::time_t const seconds = std::chrono::system_clock::to_time_t(when);
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", days[static_cast<std::size_t>(utc.tm_wday)],
                       utc.tm_mday, months[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                       utc.tm_min, utc.tm_sec);
}

}  // namespace

std::string_view flaw_of(response const& message)
{
    if (message.status < 200 || message.status > 599) return "its status is not between 200 and 599";
    if (!is_field_value(message.content_type)) return "its content type contains a control byte";
    for (auto const& [name, value] : message.headers) {
        if (!is_token(name)) return "a header's name is malformed";
        if (!is_field_value(value)) return "a header's value contains a control byte";
        if (is_own(name)) return "it sets a header that the server writes";
    }
    return {};
}

bool may_have_body(int status)
{
    return status != 204 && status != 304;
}

std::string response_head(response const& message, response_frame const& frame)
{
    std::string text;
    auto const out = std::back_inserter(text);
    fmt::format_to(out, "HTTP/1.1 {} {}\r\nDate: {}\r\n", message.status, status_phrase(message.status),
                   http_date(frame.date));
    for (auto const& [name, value] : defaults)
        if (!has_header(message, name)) fmt::format_to(out, "{}: {}\r\n", name, value);
    for (auto const& [name, value] : message.headers) fmt::format_to(out, "{}: {}\r\n", name, value);
    if (may_have_body(message.status)) {
        if (!message.content_type.empty()) fmt::format_to(out, "Content-Type: {}\r\n", message.content_type);
        fmt::format_to(out, "Content-Length: {}\r\n", message.body.size());
    }
    // HTTP/1.0 clients must be told that the connection stays open; the others don't mind.
    return text += frame.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
}

}  // namespace skald::http
