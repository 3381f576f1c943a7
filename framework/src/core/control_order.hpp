// An operator's order for one saga, as a message `skald.control` carries it to the services of the itinerary: checked
// here, carried out by skald.take_control(). See docs/repair.md, "Orders".
#pragma once

#include <string>
#include <string_view>
#include <variant>

namespace skald::core {

inline constexpr std::string_view control_type = "skald.control";

/// The order as JSON text that skald.take_control() takes: only members that are known, each of its form.
struct control_order
{
    std::string text;
};

struct bad_order
{
    std::string why;  // one sentence
};

/// {"id", "scope", "key", "home", "action", "by", "requested_at"} and, where given, "reason" and "step" (the step of a
/// retry).
std::variant<control_order, bad_order> read_control_order(std::string_view body);

}  // namespace skald::core
