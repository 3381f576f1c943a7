// The keys that sign messages, from the files that SKALD_SIGNING_KEYS names. Read once, at startup.
#pragma once

#include "core/log.hpp"
#include "core/signature.hpp"

#include <skald/config.hpp>

#include <optional>

namespace skald::worker_detail {

/// Nothing if signatures are off. Throws configuration_error that names the file and never shows its contents.
std::optional<core::key_ring> read_signing_keys(config const& settings);

/// Logs which keys are in use, so that a rotation can be followed.
void log_signing(config const& settings, core::key_ring const& keys, core::logger& log);

}  // namespace skald::worker_detail
