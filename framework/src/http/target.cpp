#include "http/target.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "http/chars.hpp"

namespace skald::http {
namespace {

/// What follows "http://" or "https://"; nothing if the target begins with neither.
std::optional<std::string_view> without_scheme(std::string_view target)
{
    for (std::string_view const scheme : {"http://", "https://"})
        if (equal_ignoring_case(target.substr(0, scheme.size()), scheme)) return target.substr(scheme.size());
    return {};
}

std::optional<std::string> decode_form(std::string_view encoded)
{
    std::string spaced{encoded};
    std::replace(spaced.begin(), spaced.end(), '+', ' ');
    return percent_decode(spaced);
}

}  // namespace

std::optional<target_parts> split_target(std::string_view target)
{
    if (target.find('#') != std::string_view::npos) return {};

    target_parts parts;
    if (target.empty() || target.front() != '/') {
        auto const rest = without_scheme(target);
        if (!rest) return {};
        parts.authority = rest->substr(0, rest->find_first_of("/?"));
        if (parts.authority.empty()) return {};
        target = rest->substr(parts.authority.size());
    }
    auto const mark = target.find('?');
    parts.path = target.substr(0, mark);
    if (mark != std::string_view::npos) parts.query = target.substr(mark + 1);
    if (parts.path.empty()) parts.path = "/";
    return parts;
}

std::string_view read_target(request& message)
{
    auto const parts = split_target(message.target);
    auto path = parts ? percent_decode(parts->path) : std::nullopt;
    if (!path) return "The request target must be a path or an http URL.";
    if (!core::is_storable_text(*path)) return "The path must be UTF-8, with what it can't hold escaped.";
    auto const host = message.header("Host");
    if (!parts->authority.empty() && !host.empty() && !equal_ignoring_case(parts->authority, host))
        return "The request target names another host than the Host header.";
    message.path = *std::move(path);
    message.query = parts->query;
    return {};
}

std::optional<std::string> percent_decode(std::string_view encoded)
{
    std::string decoded;
    decoded.reserve(encoded.size());
    for (std::size_t i = 0; i < encoded.size(); ++i) {
        if (encoded[i] != '%') {
            decoded += encoded[i];
            continue;
        }
        if (encoded.size() - i < 3) return {};
        int const high = hex_value(encoded[i + 1]);
        int const low = hex_value(encoded[i + 2]);
        if (high < 0 || low < 0) return {};
        char const byte = static_cast<char>(high * 16 + low);
        if (is_control(byte)) return {};
        decoded += byte;
        i += 2;
    }
    return decoded;
}

std::string percent_encode_segment(std::string_view text)
{
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string encoded;
    for (char const c : text) {
        if (is_alpha(c) || is_digit(c) || c == '-' || c == '.' || c == '_' || c == '~') {
            encoded += c;
            continue;
        }
        auto const byte = static_cast<unsigned char>(c);
        encoded += '%';
        encoded += digits[byte >> 4];
        encoded += digits[byte & 0xf];
    }
    return encoded;
}

std::vector<std::optional<std::string>> query_values(std::string_view query, std::string_view name)
{
    std::vector<std::optional<std::string>> values;
    while (!query.empty()) {
        auto const pair = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(pair.size() + 1, query.size()));

        auto const equals = pair.find('=');
        if (decode_form(pair.substr(0, equals)) != name) continue;
        values.push_back(equals == std::string_view::npos ? std::string{} : decode_form(pair.substr(equals + 1)));
    }
    return values;
}

std::optional<std::string> query_parameter(std::string_view query, std::string_view name)
{
    auto const values = query_values(query, name);
    return values.empty() ? std::nullopt : values.front();
}

}  // namespace skald::http
