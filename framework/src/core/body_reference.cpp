#include "core/body_reference.hpp"

#include "core/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace skald::core {
namespace {

constexpr std::string_view algorithm = "sha256:";
constexpr std::string_view size_mark = ";size=";
constexpr std::string_view store_mark = ";store=";
constexpr std::size_t hex_digits = 64;

bool take(std::string_view& text, std::string_view prefix)
{
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

bool is_lower_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

}  // namespace

std::string body_reference::name() const
{
    return std::string{algorithm} + to_hex(fingerprint);
}

std::string body_reference::text() const
{
    auto all = name().append(size_mark).append(std::to_string(size));
    if (!store.empty()) all.append(store_mark).append(store);
    return all;
}

body_reference reference_to(std::string_view body, std::string_view store)
{
    return {fingerprint_of(body), body.size(), std::string{store}};
}

std::optional<body_reference> parse_reference(std::string_view text)
{
    if (!take(text, algorithm) || text.size() < hex_digits) return std::nullopt;
    auto const digits = text.substr(0, hex_digits);
    if (!std::ranges::all_of(digits, is_lower_hex)) return std::nullopt;
    body_reference read{from_hex(std::string{digits})};
    text.remove_prefix(hex_digits);
    if (!take(text, size_mark)) return std::nullopt;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), read.size);
    if (error != std::errc{} || read.size > kept_body_bytes_max) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (take(text, store_mark)) read.store = std::exchange(text, {});
    if (!text.empty()) return std::nullopt;
    return read;
}

std::string stand_in_for(body_reference const& what)
{
    return nlohmann::json{{header::body, what.text()}}.dump();
}

bool is_kept_elsewhere(message const& m)
{
    return find_header(m.headers, header::body).has_value();
}

std::optional<body_reference> reference_in(message const& m)
{
    auto const given = std::ranges::count_if(m.headers, [](auto const& one) { return one.first == header::body; });
    if (given != 1 || !m.body.empty()) return std::nullopt;
    return parse_reference(*find_header(m.headers, header::body));
}

void refer(message& m, body_reference const& to)
{
    std::erase_if(m.headers, [](auto const& one) { return one.first == header::body; });
    m.headers.emplace_back(header::body, to.text());
    std::string{}.swap(m.body);  // its memory too
}

void carry_body(message& to, message const& from)
{
    to.body = from.body;
    std::erase_if(to.headers, [](auto const& one) { return one.first == header::body; });
    for (auto const& one : from.headers)
        if (one.first == header::body) to.headers.push_back(one);
}

}  // namespace skald::core
