// Skald's own server in front of the entry.
#pragma once

#include "core/log.hpp"
#include "entry/entry.hpp"
#include "http/server.hpp"

#include <skald/config.hpp>

#include <memory>

namespace skald::worker_detail {

/// The server's options according to the settings.
http::server_options server_options_of(config const& settings);

/// Listens. `entry` must outlive the server. Throws std::runtime_error if it can't listen on the address or can't use
/// the TLS files.
std::unique_ptr<http::server> make_server(config const& settings, entry::implementation& entry, core::logger& log);

}  // namespace skald::worker_detail
