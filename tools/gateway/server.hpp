// The gateway's HTTP, a thread for each connection, and the faults. It owns the sockets, because it must be able to
// hang up, and to answer one who has gone.
#pragma once

#include "faults.hpp"
#include "provider.hpp"

#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace gateway {

class server
{
public:
    /// Listens on "HOST:PORT"; port 0 is a free one. Throws std::runtime_error.
    server(std::string const& listen, provider& provider);

    std::string address() const;

    /// Accepts and answers for as long as the process lives: its threads use this until then.
    [[noreturn]] void run();

private:
    using socket = boost::asio::ip::tcp::socket;

    void serve(socket& client);

    boost::asio::io_context io_;
    boost::asio::ip::tcp::acceptor acceptor_;
    provider& provider_;
    fault_plan faults_;
};

}  // namespace gateway
