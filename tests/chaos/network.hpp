// What lies between the services and a server: a proxy for each of its nodes, which can be cut and stalled.
#pragma once

#include "support/tcp_proxy.hpp"

#include <memory>
#include <string>
#include <vector>

namespace order_storm {

/// Threads: any.
class network
{
public:
    /// To the server of this URL, or to the nodes of its cluster: "scheme://user@host:port,host:port/rest".
    explicit network(std::string const& url);

    /// Nothing lies there.
    network() = default;

    /// To nodes that name themselves to their clients: of each, the port where it listens, and the one that it names.
    explicit network(std::vector<int> const& ports);

    /// "127.0.0.1:port", and more after commas: the proxies.
    std::string addresses() const;

    /// The same server, or another database on it, through the proxies.
    std::string through(std::string const& url) const;

    /// All connections end, and new ones are refused.
    void cut(bool on);

    /// What the server answers does not arrive; the connections stay.
    void stall(bool on);

private:
    std::vector<std::unique_ptr<skald::test::tcp_proxy>> links_;
};

}  // namespace order_storm
