// What answers requests.
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

/// An answer; or how it stands, where the client may wait up to `max_wait` for a better one. It is then asked for
/// again, on any lane, until there is no more max_wait to be had or the time is over.
struct reply
{
    reply(response a, std::chrono::seconds p = {}) : answer{std::move(a)}, max_wait{p} {}

    response answer;
    std::chrono::seconds max_wait;
};

/// Answers a request, blocking. Lane i is one thread for as long as the server runs, so what belongs to lane i (a
/// database connection) is touched by one thread. The request is the handler's own: it may set its parameters.
using handler = std::function<reply(request& message, std::size_t lane)>;

/// Answers a request that every lane is too busy for, or leaves it to them by nothing. Called on a thread of its own,
/// where it may block for a little: what it can say without a lane's database connection must not wait for a lane.
using lookup_handler = std::function<std::optional<reply>(request& message)>;

/// Answers on the I/O thread, before the lanes are asked; nothing means that it is a request for the lanes. It must
/// not block, because no connection moves while it runs: this is for what must be answered even if every lane is taken.
using immediate_handler = std::function<std::optional<response>(request const& message)>;

/// The answer when a handler threw `error`: 500. What the exception says goes to the log and nowhere else: it may hold
/// SQL, host names, another client's data.
response internal_error(request const& message, std::exception_ptr error, core::logger& log);

}  // namespace skald::http
