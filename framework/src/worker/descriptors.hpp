// File descriptors: a process that runs out of them can neither accept a connection nor reconnect to its database.
#pragma once

#include <skald/config.hpp>

#include <cstddef>

namespace skald::worker_detail {

/// The maximum that a process with these settings may have open at a time, plus some for its steps and handlers.
std::size_t descriptors_needed(config const& settings);

/// Raises this process's limit to that number if it is too low and may be raised. If it may not, throws
/// configuration_error that says what to do.
void need_descriptors(config const& settings);

}  // namespace skald::worker_detail
