// amqp:// and amqps:// URLs.
//
// rabbitmq-c has a parser too, but it rejects percent-encoded bytes above 127 and does not know queries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace skald::rabbitmq {

struct endpoint
{
    std::string host{"localhost"};
    int port{5672};
    bool operator==(endpoint const&) const = default;
};

struct address
{
    bool tls{};
    std::vector<endpoint> endpoints;  // the nodes of one cluster, at least one
    std::string user{"guest"};
    std::string password{"guest"};
    std::string vhost{"/"};
    std::string cacertfile;  // empty: the system's certificate authorities
    std::string certfile;    // empty: no client certificate
    std::string keyfile;
};

/// `amqp[s]://[user[:password]@]host[:port][,host[:port]...][/vhost][?cacertfile=..&certfile=..&keyfile=..]`, each part
/// percent-encoded. An empty path means the vhost `/`, with or without its slash. Throws: std::invalid_argument, whose
/// text never quotes the URL, since that may hold a password.
address parse_url(std::string_view url);

/// Throws std::invalid_argument if a file that the URL names can't be read now: waiting for the broker would not help.
void check_files(address const& where);

/// `host:port[,host:port...]/vhost`, for logs: neither user nor password.
std::string describe(address const& where);

/// ` --vhost NAME` for RabbitMQ's commands, which are otherwise about `/`; nothing for that.
std::string vhost_option(std::string const& vhost);

/// `host:port`.
std::string describe(endpoint const& node);

}  // namespace skald::rabbitmq
