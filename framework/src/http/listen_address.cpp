#include "http/listen_address.hpp"

#include <charconv>
#include <stdexcept>

namespace skald::http {

listen_address parse_listen_address(std::string_view text, std::string_view setting)
{
    auto const fail = [&](std::string_view why) {
        return std::runtime_error{listen_setting(text, setting) + ' ' + std::string{why}};
    };
    auto const colon = text.rfind(':');
    if (colon == std::string_view::npos) throw fail("has no port: HOST:PORT is needed");

    auto host = text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    else if (host.find(':') != std::string_view::npos) throw fail("needs brackets around its host: [HOST]:PORT");
    if (host.empty()) throw fail("has no host: 0.0.0.0 listens on every address");

    auto const digits = text.substr(colon + 1);
    std::uint16_t port = 0;
    auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc{} || end != digits.data() + digits.size()) throw fail("has no port between 0 and 65535");
    return {.host = std::string{host}, .port = port};
}

std::string to_string(listen_address const& address)
{
    bool const is_ipv6 = address.host.find(':') != std::string::npos;
    return (is_ipv6 ? '[' + address.host + ']' : address.host) + ':' + std::to_string(address.port);
}

std::string listen_setting(std::string_view value, std::string_view setting)
{
    return std::string{setting} + " \"" + std::string{value} + '"';
}

}  // namespace skald::http
