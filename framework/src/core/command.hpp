// An operator's command for one saga, as a `skald.control` message carries it to the services of the itinerary: checked
// here, executed by skald.take_control(). See docs/repair.md, "Commands".
#pragma once

#include <string>
#include <string_view>
#include <variant>

namespace skald::core {

inline constexpr std::string_view control_type = "skald.control";

/// The command as JSON text that skald.take_control() accepts: only known members, each well-formed.
struct command
{
    std::string text;
};

struct bad_command
{
    std::string why;  // one sentence
};

/// {"id", "scope", "key", "home", "action", "by", "requested_at"} and, where given, "reason", "step" (the step of a
/// retry) and "act" (the order for many that it is part of).
std::variant<command, bad_command> read_command(std::string_view body);

}  // namespace skald::core
