// What a client prefers: the Prefer header (RFC 7240).
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include <skald/http.hpp>

namespace skald::http {

/// N of `Prefer: wait=N`, the first if there are several. Nothing if it is absent or malformed: a preference that is
/// not understood is ignored.
std::optional<std::chrono::seconds> wait_preference(request const& message);

/// Tells a client that the response was waited for, and for how long at the most (RFC 7240, 3), if it preferred that
/// by the header.
void report_wait(response& made, request const& message, std::chrono::seconds max_wait);

/// A whole number of seconds. A value that is too large is clamped to the maximum.
std::optional<std::chrono::seconds> parse_seconds(std::string_view digits);

}  // namespace skald::http
