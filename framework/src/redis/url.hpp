// redis:// and redis-sentinel:// URLs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace skald::redis_detail {

struct endpoint
{
    std::string host;
    int port{};
    bool operator==(endpoint const&) const = default;
};

struct address
{
    std::vector<endpoint> endpoints;  // one server; or the sentinels that know where it is
    std::string master;               // its name there; empty: there are no sentinels
    std::string user;                 // empty: the default one
    std::string password;             // empty: none is sent
    int database{};
    bool has_tls{};  // the server shows a certificate for its host
};

/// `redis://[[user]:password@]host[:port][/number]`, `rediss://` likewise for TLS, or with sentinels
/// `redis-sentinel://[[user]:password@]host[:port][,host[:port]...]/name[/number]`; user and password are
/// percent-encoded. They are for the server: sentinels are asked without. Throws: std::invalid_argument, whose text
/// never quotes the URL, since that may hold a password.
address parse_url(std::string_view url);

/// `host:port`
std::string describe(endpoint const& node);

}  // namespace skald::redis_detail
