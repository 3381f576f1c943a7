// Whose a reason is. A step that said no and one that broke as often as it may are both recorded as `rejected`, with a
// text: the first is for the customer, who may read it over HTTP; the second is an exception's, and for operators
// alone.
#pragma once

#include <string>
#include <string_view>

namespace skald::core {

inline constexpr std::string_view gave_up_mark = "gave up after its last attempt: ";

/// What is written down where a step's attempts are used up.
inline std::string gave_up(std::string_view why)
{
    return std::string{gave_up_mark}.append(why);
}

/// What a customer may read of a rejected step's text: all of it, or nothing. A service's own reason that begins like
/// the mark is hidden too, which harms nobody.
inline std::string_view reason_for_customers(std::string_view text)
{
    return text.starts_with(gave_up_mark) ? std::string_view{} : text;
}

/// What a compensation is recorded with that found no completed step (skald.claim()).
inline constexpr std::string_view nothing_to_undo = "nothing to undo";

}  // namespace skald::core
