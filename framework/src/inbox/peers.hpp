// Where the inboxes of services are.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace skald::inbox {

/// Connection strings, as libpq reads them, by service.
using peer_map = std::map<std::string, std::string, std::less<>>;

/// Reads a JSON object: {"payments": "postgresql://orders@10.0.0.7/payments"}. Throws configuration_error with the
/// file's name and what to do; it repeats no connection string, since one may hold a password.
peer_map read_peers(std::string const& path);

}  // namespace skald::inbox
