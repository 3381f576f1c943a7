// What makes a transport that is in a library of its own, as skald::kafka() returns it.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace skald {

struct config;
class logger;

namespace ports {
class transport;
}

namespace detail {

/// With the name of its connections, for people. Throws configuration_error for settings that can't work.
using transport_maker = std::function<std::unique_ptr<ports::transport>(std::string const&, config const&, logger&)>;

}  // namespace detail
}  // namespace skald
