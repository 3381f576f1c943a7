// The functions that respond to requests.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include <skald/http.hpp>

#include "core/log.hpp"

namespace skald::http {

/// A response; or, if the client may wait up to `max_wait` for a better one, the latest state. The handler is then
/// called again, on any lane, until its reply has no `max_wait` or the time is up.
struct reply
{
    reply(response a, std::chrono::seconds p = {}) : answer{std::move(a)}, max_wait{p} {}

    response answer;
    std::chrono::seconds max_wait;
};

/// Responds to a request; may block. Lane i is one thread for as long as the server runs, so what belongs to lane i (a
/// database connection) is used by one thread only. The handler owns the request: it may set its parameters.
using handler = std::function<reply(request& message, std::size_t lane)>;

/// Responds to a request while every lane is busy; nothing leaves the request to the lanes. Runs on its own thread,
/// where it may block briefly: a response that needs no lane's database connection must not wait for a lane.
using lookup_handler = std::function<std::optional<reply>(request& message)>;

/// Responds on the I/O thread, before the lanes get the request; nothing leaves it to the lanes. It must not block,
/// because no connection makes progress while it runs: use it for what must be answered even if every lane is taken.
using immediate_handler = std::function<std::optional<response>(request const& message)>;

/// The response if a handler threw `error`: 500. The exception's text goes to the log and nowhere else: it may contain
/// SQL, host names or another client's data.
response internal_error(request const& message, std::exception_ptr error, core::logger& log);

}  // namespace skald::http
