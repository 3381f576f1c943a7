// File descriptors: a process that runs out of them can neither accept a connection nor get a new one to its database.
#pragma once

#include <skald/config.hpp>

#include <cstddef>

namespace skald::worker_detail {

/// As many as a process with these settings may have open at a time, and some for what its steps and handlers open.
std::size_t descriptors_needed(config const& settings);

/// Raises this process's limit to that where it is below and may be raised. Throws configuration_error that says what
/// to do where it may not.
void need_descriptors(config const& settings);

}  // namespace skald::worker_detail
