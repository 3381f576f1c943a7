// An additional queue next to those of the services: it gets a copy of each message that is sent to them.
//
// It is bound to the same exchange with the same keys, so that nothing changes for the services' own queues, and its
// messages are consumed without acks. It belongs to its connection and disappears with it, however that ends. If its
// consumer is too slow, it drops its oldest messages: no publisher ever waits for it or is refused because of it.
#pragma once

#include "duplicator/captured.hpp"
#include "rabbitmq/connection.hpp"

#include <string>
#include <vector>

namespace skald::tools {

/// Every function throws rabbitmq::connection_lost if the connection is lost. Threads: one at a time.
class tap
{
public:
    /// When this returns, whatever is sent to these services from now on comes here too.
    ///
    /// Their queues must exist: a message that only this queue gets counts as routed, and would never be sent again.
    tap(rabbitmq::connection_settings const& settings, sockets::socket_interrupter& interrupter,
        std::vector<std::string> services);

    /// The next message; nothing if none has arrived. Does not wait, except for the rest of one that has begun.
    captured_ptr next();

    /// Deletes the queue; no more messages arrive.
    void close();

    int socket() const { return broker_.socket(); }

private:
    void declare();
    captured_ptr read_message(amqp_basic_deliver_t const& begun);

    std::vector<std::string> services_;
    std::string queue_;
    rabbitmq::connection broker_;
};

}  // namespace skald::tools
