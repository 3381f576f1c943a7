// Errors as application/problem+json (RFC 9457).
#pragma once

#include <chrono>
#include <string_view>

#include <skald/http.hpp>

namespace skald::http {

/// `type_suffix` names the kind of problem: its type is the relative reference "/problems/<suffix>". Empty means that
/// the status says it all: "about:blank". An empty `title` becomes the status's own words.
///
/// `title` and `detail` may be any bytes; those that aren't UTF-8 are replaced, so that the body is always JSON.
response problem(int status, std::string_view type_suffix, std::string_view title, std::string_view detail);

/// A problem that its status explains.
response problem(int status, std::string_view detail);

/// `answer` with Retry-After, in whole seconds and at least one: a client must not come back at once.
response with_retry_after(response answer, std::chrono::seconds wait);

}  // namespace skald::http
