// One POST to a collector.
#pragma once

#include "tracing/exporter.hpp"

#include <chrono>
#include <string>

namespace skald::tracing {

struct post_answer
{
    int status{};       // of the response; 0: there was none
    std::string error;  // then why
};

/// Opens a connection, sends `body`, reads the response and closes. Never throws, and takes no longer than `timeout`,
/// but for the system's look-up of the name.
post_answer post_json(collector_address const& to, std::string const& body, std::chrono::milliseconds timeout);

}  // namespace skald::tracing
