// The head of a response, as it is sent.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <skald/http.hpp>

namespace skald::http {

/// What the connection adds to a response.
struct response_frame
{
    bool keep_alive{true};
    std::chrono::sys_seconds date;
};

/// What is wrong with a handler's response, or nothing. With a CR or LF in a value, the author of the value could
/// inject headers and whole responses. Framing is the server's business, so framing headers are refused too.
std::string_view flaw_of(response const& message);

/// Whether a response with this status has a body at all (RFC 9110: not 204, not 304).
bool may_have_body(int status);

/// The status line and the headers, with the empty line. Requires that `message` has no flaw.
std::string response_head(response const& message, response_frame const& frame);

}  // namespace skald::http
