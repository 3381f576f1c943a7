// What this process knows without the database: the running requests, and the responses to those that ended recently.
#pragma once

#include "http/in_flight_requests.hpp"
#include "http/response_cache.hpp"

namespace skald::http {

/// Threads: any. Shared by all lanes.
struct known_requests
{
    in_flight_requests running{};
    response_cache answered{};
};

}  // namespace skald::http
