// HOST:PORT, the address on which the server listens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace skald::http {

struct listen_address
{
    std::string host;  // without the brackets of an IPv6 address
    std::uint16_t port{0};
};

/// "127.0.0.1:8080", "[::1]:8080", "localhost:0". Port 0 picks a free one. Throws std::runtime_error that names the
/// setting.
listen_address parse_listen_address(std::string_view text, std::string_view setting);

/// The form in which a client writes the address: with brackets if needed.
std::string to_string(listen_address const& address);

/// The beginning of every error about the address: which setting to check, and its value.
std::string listen_setting(std::string_view value, std::string_view setting);

}  // namespace skald::http
