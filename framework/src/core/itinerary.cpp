#include "core/itinerary.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace skald::core {
namespace {

constexpr std::array<std::string_view, 3> kind_names{"compensatable", "pivot", "retriable"};

// Takes the text up to `separator` off the front, or all of it.
std::string_view take(std::string_view& text, char separator)
{
    auto const end = std::min(text.find(separator), text.size());
    auto const token = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return token;
}

// From 1, in canonical form.
std::optional<std::size_t> parse_number(std::string_view text)
{
    if (text.starts_with('0')) return std::nullopt;
    std::size_t number{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

std::optional<itinerary_step> parse_step(std::string_view token)
{
    auto const name = take(token, '@');
    auto const service = take(token, '=');
    auto const kind = std::find(kind_names.begin(), kind_names.end(), token);
    if (!is_name(name) || !is_name(service) || kind == kind_names.end()) return std::nullopt;
    return itinerary_step{std::string{name}, std::string{service}, static_cast<step_kind>(kind - kind_names.begin())};
}

bool in_order(std::vector<itinerary_step> const& steps)
{
    auto const kind = [](itinerary_step const& s) { return s.kind; };
    return std::ranges::is_sorted(steps, {}, kind) && std::ranges::count(steps, step_kind::pivot, kind) <= 1;
}

// Two steps with the same name would share the guard's record, and the second would be taken for done.
bool names_differ(std::vector<itinerary_step> const& steps)
{
    for (auto it = steps.begin(); it != steps.end(); ++it)
        if (std::ranges::find(it + 1, steps.end(), it->name, &itinerary_step::name) != steps.end()) return false;
    return true;
}

}  // namespace

std::string itinerary::text() const
{
    std::string out = position.direction == direction::forward ? "forward " : "back ";
    out += std::to_string(position.index + 1) + '/' + std::to_string(steps.size());
    for (auto const& step : steps) {
        out.append(" ").append(step.name).append("@").append(step.service).append("=");
        out += kind_names[static_cast<std::size_t>(step.kind)];
    }
    return out;
}

itinerary make_itinerary(std::span<planned_step const> plan)
{
    itinerary made;
    for (auto const& step : plan) made.steps.push_back({std::string{step.name}, std::string{step.service}, step.kind});
    return made;
}

std::optional<itinerary> parse_itinerary(std::string_view text)
{
    if (text.ends_with(' ')) return std::nullopt;
    itinerary read;
    auto const way = take(text, ' ');
    if (way != "forward" && way != "back") return std::nullopt;
    read.position.direction = way == "forward" ? direction::forward : direction::back;

    auto const index = parse_number(take(text, '/'));
    auto const count = parse_number(take(text, ' '));
    if (!index || !count || *count > steps_max || *index > *count) return std::nullopt;
    read.position.index = *index - 1;

    while (!text.empty() && read.steps.size() < *count) {
        auto step = parse_step(take(text, ' '));
        if (!step) return std::nullopt;
        read.steps.push_back(std::move(*step));
    }
    if (!text.empty() || read.steps.size() != *count || !in_order(read.steps) || !names_differ(read.steps))
        return std::nullopt;
    if (read.position.direction == direction::back && read.current().kind != step_kind::compensatable)
        return std::nullopt;
    return read;
}

}  // namespace skald::core
