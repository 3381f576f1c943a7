// What a client would rather have: the Prefer header (RFC 7240).
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include <skald/http.hpp>

namespace skald::http {

/// N of `Prefer: wait=N`, the first where there are several. Nothing where there is none or it is malformed: a
/// preference that isn't understood is passed over.
std::optional<std::chrono::seconds> wait_preference(request const& message);

/// A whole number of seconds. What is too large to be meant becomes the largest that can be.
std::optional<std::chrono::seconds> parse_seconds(std::string_view digits);

}  // namespace skald::http
