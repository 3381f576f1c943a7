#include "http/prefer.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "http/chars.hpp"

namespace skald::http {
namespace {

// No client waits for a response for more than a day.
constexpr std::chrono::seconds longest{86'400};

/// The text up to the next `end` outside quotes; `rest` becomes what follows it.
std::string_view take_until(std::string_view& rest, char end)
{
    bool is_quoted = false;
    std::size_t at = 0;
    for (; at < rest.size() && (is_quoted || rest[at] != end); ++at) {
        if (rest[at] == '"') is_quoted = !is_quoted;
        else if (is_quoted && rest[at] == '\\') ++at;
    }
    auto const taken = rest.substr(0, at);
    rest.remove_prefix(std::min(at + 1, rest.size()));
    return trimmed(taken);
}

std::string_view unquoted(std::string_view word)
{
    return word.size() >= 2 && word.starts_with('"') && word.ends_with('"') ? word.substr(1, word.size() - 2) : word;
}

}  // namespace

std::optional<std::chrono::seconds> wait_preference(request const& message)
{
    for (auto const& [field, value] : message.headers) {
        if (!equal_ignoring_case(field, "Prefer")) continue;
        for (std::string_view rest = value; !rest.empty();) {
            auto parameters = take_until(rest, ',');
            auto preference = take_until(parameters, ';');
            auto const name = take_until(preference, '=');
            if (equal_ignoring_case(name, "wait")) return parse_seconds(unquoted(trimmed(preference)));
        }
    }
    return {};
}

void report_wait(response& made, request const& message, std::chrono::seconds max_wait)
{
    if (wait_preference(message))
        made.headers.emplace_back("Preference-Applied", "wait=" + std::to_string(max_wait.count()));
}

std::optional<std::chrono::seconds> parse_seconds(std::string_view digits)
{
    if (digits.empty()) return {};
    std::chrono::seconds time{};
    for (char const c : digits) {
        if (!is_digit(c)) return {};
        time = std::min(time * 10 + std::chrono::seconds{c - '0'}, longest);
    }
    return time;
}

}  // namespace skald::http
