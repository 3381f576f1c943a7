// What this process knows of requests by itself: which run, and what those were answered that ended a moment ago.
#pragma once

#include "http/in_flight_requests.hpp"
#include "http/response_cache.hpp"

namespace skald::http {

/// Threads: any. One for all lanes.
struct known_requests
{
    in_flight_requests running{};
    response_cache answered{};
};

}  // namespace skald::http
