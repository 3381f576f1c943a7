// Whoever counts responses. The server knows neither routes nor metrics: it tells what it sends.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include <skald/http.hpp>

#include "http/handler.hpp"

namespace skald::http {

/// Threads: the server's I/O thread.
class observer
{
public:
    virtual ~observer() = default;

    /// Which of its routes a request went to, as far as that was found out; 0 if to none.
    virtual std::size_t route_of(received const& asked) const = 0;

    /// A response is about to be sent. `took`: since the request was complete; nothing if it never was.
    virtual void responded(std::size_t route, response const& made,
                           std::optional<std::chrono::steady_clock::duration> took) = 0;
};

}  // namespace skald::http
