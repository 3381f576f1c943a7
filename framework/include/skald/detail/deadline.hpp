// How far ahead a time in a message may be: its format has no room for years after 9999.
#pragma once

#include <chrono>
#include <stdexcept>

namespace skald::detail {

/// From now; also of a snooze.
inline constexpr std::chrono::milliseconds deadline_max = std::chrono::years{1000};

/// Throws std::invalid_argument. 0 is none.
inline void check_deadline(std::chrono::milliseconds deadline)
{
    if (deadline.count() < 0) throw std::invalid_argument{"a deadline is later than now"};
    if (deadline > deadline_max) throw std::invalid_argument{"a deadline is at most 1000 years from now"};
}

}  // namespace skald::detail
