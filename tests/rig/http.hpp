// A client of cpp-httplib, as a shop's customers and probes use it: one connection that stays open.
#pragma once

#include <chrono>
#include <cstdint>

#include <httplib.h>

namespace skald::rig {

/// Threads: one at a time. A request not answered within `timeout` is an error in the result; nothing is sent twice.
class http_client : public httplib::Client
{
public:
    http_client(std::uint16_t port, std::chrono::seconds timeout) : httplib::Client{"127.0.0.1", port}
    {
        set_keep_alive(true);
        set_tcp_nodelay(true);
        set_connection_timeout(timeout);
        set_read_timeout(timeout);
        set_write_timeout(timeout);
    }
};

inline bool is_ready(std::uint16_t port)
{
    auto const answer = http_client{port, std::chrono::seconds{2}}.Get("/readyz");
    return answer && answer->status == 200;
}

}  // namespace skald::rig
