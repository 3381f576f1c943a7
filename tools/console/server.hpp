// Serves the console over HTTP until it is told to stop.
#pragma once

#include "settings.hpp"

#include <functional>
#include <string>

namespace skald::console {

/// Runs until SIGINT or SIGTERM. `started` is told the address at which it listens. Throws configuration_error; also if
/// it can't listen there.
void serve(settings const& given, std::function<void(std::string const& address)> const& started);

}  // namespace skald::console
