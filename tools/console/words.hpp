// How the pages say times, numbers and what became of a step. Pure.
#pragma once

#include "core/instant.hpp"
#include "saga_story.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace skald::console {

/// "6 ms", "1.2 s", "3 min", "2 h", "4 days".
std::string duration(std::chrono::microseconds time);

/// "2026-01-31 12:00:00.123" from what core::write_instant() writes; empty for an empty text.
std::string shown_time(std::string const& instant);
std::string shown_time(core::instant at);

/// "12,345"
std::string number(std::int64_t count);

/// "1 attempt", "3 attempts".
std::string counted(std::int64_t count, std::string const& one, std::string const& many);

/// What became of a step, in the few words that fit a station: "done +6 ms".
std::string in_short(run const& of, core::instant start, bool is_compensation);

/// How often it was delivered and applied: "delivered 4× · applied once". Empty while nothing is known.
std::string deliveries(run const& of, bool is_compensation);

/// Where its message is, for the step that a saga waits for; empty for any other.
std::string whereabouts(run const& of, std::string const& service, core::instant now);

/// The name of its colour in the style sheet.
std::string tone(run const& of, bool is_compensation);

/// A status of a saga, in the words of the list: "compensated" is shown as it is.
std::string tone_of_status(std::string const& status);

}  // namespace skald::console
