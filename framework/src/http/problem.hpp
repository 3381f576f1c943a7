// Errors as application/problem+json (RFC 9457).
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include <skald/http.hpp>

#include "http/problem_types.hpp"

namespace skald::http {

/// `detail` may contain any bytes; those that are not UTF-8 are replaced, so that the body is always valid JSON.
response problem(problem_type type, std::string_view detail);

/// A problem that its status explains: the type is "about:blank", the title is the status's reason phrase.
response problem(int status, std::string_view detail);

/// The description found at a type's path: its title, and what to do. Nothing for any other path.
std::optional<response> describe_problem(std::string_view path);

/// Adds Retry-After to `answer`, in whole seconds and at least one: a client must not come back at once.
response with_retry_after(response answer, std::chrono::seconds wait);

}  // namespace skald::http
