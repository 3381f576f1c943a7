// The head of an answer, as it goes over the wire.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <skald/http.hpp>

namespace skald::http {

/// What the connection adds to an answer.
struct answer_frame
{
    bool keep_alive{true};
    std::chrono::sys_seconds date;
};

/// What is wrong with a handler's answer, or nothing. A CR or LF in a value would let whoever chose the value write
/// headers and answers of his own. Framing is the server's business, so those headers are refused too.
std::string_view flaw_of(response const& answer);

/// Whether an answer with this status has a body at all (RFC 9110: not 204, not 304).
bool may_have_body(int status);

/// The status line and the headers, with the empty line. `answer` has no flaw.
std::string response_head(response const& answer, answer_frame const& frame);

}  // namespace skald::http
