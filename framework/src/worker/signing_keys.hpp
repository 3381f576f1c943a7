// The keys that messages are signed with, from the files that SKALD_SIGNING_KEYS names. Read once, at the start.
#pragma once

#include "core/log.hpp"
#include "core/signature.hpp"

#include <skald/config.hpp>

#include <optional>

namespace skald::worker_detail {

/// Nothing where signatures are off. Throws: configuration_error that names the file, and never shows what is in it.
std::optional<core::key_ring> read_signing_keys(config const& settings);

/// Which keys those are, so that a rotation can be followed.
void log_signing(config const& settings, core::key_ring const& keys, core::logger& log);

}  // namespace skald::worker_detail
