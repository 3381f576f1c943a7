// What this process knows of requests by itself: which run, and what those were answered that ended a moment ago.
#pragma once

#include "http/kept_answers.hpp"
#include "http/running_requests.hpp"

namespace skald::http {

/// Threads: any. One for all lanes.
struct known_requests
{
    running_requests running{};
    kept_answers answered{};
};

}  // namespace skald::http
