// The functions that respond to requests.
#pragma once

#include <any>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <skald/http.hpp>

#include "core/log.hpp"

namespace skald::http {

/// A request, and what the handlers keep about it from one call to the next: its route, for example, once it is found.
struct received
{
    request message;
    std::any notes{};
    std::string peer{};  // who sent it: an address, or an IPv6 client's network (http/peer_count.hpp)
};

/// Is asked first, on the I/O thread; nothing leaves the request to the lanes. It must not block, because no connection
/// makes progress while it runs: use it for what must be answered even if every lane is taken.
using immediate_handler = std::function<std::optional<reply>(received& asked)>;

/// Is asked next, on a lane; may block. Lane i is one thread for as long as the server runs, so what belongs to lane i
/// (a database connection) is used by one thread only.
using handler = std::function<reply(received& asked, std::size_t lane)>;

/// The response if a handler threw `error`: 500. The exception's text goes to the log and nowhere else: it may contain
/// SQL, host names or another client's data.
response internal_error(request const& message, std::exception_ptr error, core::logger& log);

}  // namespace skald::http
