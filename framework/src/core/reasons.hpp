// Who may read a reason. A step that rejected and one that used up its attempts are both recorded as `rejected`, with a
// text: the first is for the customer, who may read it over HTTP; the second is an exception's, and for operators only.
#pragma once

#include <string>
#include <string_view>

namespace skald::core {

inline constexpr std::string_view last_attempt_mark = "failed its last attempt: ";

/// What is recorded when a step's attempts are used up.
inline std::string failed_last_attempt(std::string_view why)
{
    return std::string{last_attempt_mark}.append(why);
}

/// What a customer may read of a rejected step's text: all of it, or nothing. A service's own reason that begins with
/// the mark is hidden too, which does no harm.
inline std::string_view reason_for_customers(std::string_view text)
{
    return text.starts_with(last_attempt_mark) ? std::string_view{} : text;
}

/// What is recorded of a step while its message waits for a process that has it begins with this.
inline constexpr std::string_view awaits_deploy_mark = "waits for a process that has it: ";

/// The recorded reason of a compensation that found no completed step (skald.claim()).
inline constexpr std::string_view nothing_to_undo = "nothing to undo";

}  // namespace skald::core
