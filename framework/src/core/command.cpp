#include "core/command.hpp"

#include "core/identity.hpp"
#include "core/instant.hpp"
#include "core/text.hpp"
#include "core/uuid.hpp"

#include <skald/detail/data.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace skald::core {
namespace {

using nlohmann::json;

bool is_action(std::string const& text)
{
    constexpr std::array<std::string_view, 5> actions{"pause", "resume", "cancel", "retry", "close"};
    return std::ranges::find(actions, text) != actions.end();
}

// With its ".compensate", as the guard's record has it.
bool is_guarded_step(std::string const& text)
{
    auto const key = parse_derived_key("k:" + text);
    return key && key->guarded_step() == text;
}

bool is_short_text(std::string const& text)
{
    return text.size() <= 4'000 && is_storable_text(text);
}

struct member
{
    std::string_view name;
    bool (*is_good)(std::string const&);
    bool required;
};

// The service that gave an order for many, and its number there.
bool is_act(std::string const& text)
{
    auto const slash = text.find('/');
    if (slash == std::string::npos || !is_name(text.substr(0, slash))) return false;
    auto const number = text.substr(slash + 1);
    return !number.empty() && number.size() <= 19 &&
           std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

constexpr std::array<member, 10> members{{
    {"id", [](std::string const& s) { return is_uuid(s); }, true},
    {"scope", [](std::string const& s) { return is_scope(s); }, true},
    {"key", [](std::string const& s) { return is_key(s); }, true},
    {"home", [](std::string const& s) { return is_name(s); }, true},
    {"action", is_action, true},
    {"by", is_short_text, true},
    {"requested_at", [](std::string const& s) { return parse_instant(s).has_value(); }, true},
    {"reason", is_short_text, false},
    {"step", is_guarded_step, false},
    {"act", is_act, false},
}};

}  // namespace

std::variant<command, bad_command> read_command(std::string_view body)
try {
    json const received = skald::detail::parse_checked(body);
    if (!received.is_object()) return bad_command{"a command is a JSON object"};
    auto known = json::object();
    for (auto const& [name, is_good, required] : members) {
        auto const it = received.find(name);
        if (it == received.end() && !required) continue;
        if (it == received.end() || !it->is_string() || !is_good(it->get_ref<std::string const&>()))
            return bad_command{"the command's " + std::string{name} + " is missing or malformed"};
        known[std::string{name}] = *it;
    }
    if ((known["action"] == "retry") != known.contains("step"))
        return bad_command{"a command to retry names its step, and no other command does"};
    return command{known.dump()};
}
catch (data_error const& error) {
    return bad_command{error.what()};
}

}  // namespace skald::core
