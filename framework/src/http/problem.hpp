// Errors as application/problem+json (RFC 9457).
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include <skald/http.hpp>

#include "http/problem_types.hpp"

namespace skald::http {

/// `detail` may be any bytes; those that aren't UTF-8 are replaced, so that the body is always JSON.
response problem(problem_type type, std::string_view detail);

/// A problem that its status explains: the type "about:blank", and the status's own words.
response problem(int status, std::string_view detail);

/// What the path of a type leads to: its title, and what to do. Nothing for another path.
std::optional<response> describe_problem(std::string_view path);

/// `answer` with Retry-After, in whole seconds and at least one: a client must not come back at once.
response with_retry_after(response answer, std::chrono::seconds wait);

}  // namespace skald::http
