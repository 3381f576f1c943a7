// What makes the front of a service's entry, as skald::redis() returns it.
#pragma once

#include <functional>
#include <memory>

namespace skald {

struct config;
class logger;

namespace ports {
class front;
}

namespace detail {

/// Throws configuration_error for settings that can't work.
using front_maker = std::function<std::shared_ptr<ports::front>(config const&, logger&)>;

}  // namespace detail
}  // namespace skald
