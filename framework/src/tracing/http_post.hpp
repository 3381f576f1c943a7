// One POST to a collector.
#pragma once

#include "tracing/exporter.hpp"

#include <chrono>
#include <functional>
#include <string>

namespace skald::tracing {

struct post_answer
{
    int status{};       // of the response; 0: there was none
    std::string error;  // then why
};

/// Opens a connection, sends `body`, reads the response and closes. Never throws, and takes no longer than `timeout`,
/// but for the system's look-up of the name. `is_over` is asked ten times a second: then it gives up.
post_answer post_json(collector_address const& to, std::string const& body, std::chrono::milliseconds timeout,
                      std::function<bool()> const& is_over);

/// The value of the header Host: an IPv6 address has brackets there.
std::string host_of(collector_address const& to);

}  // namespace skald::tracing
