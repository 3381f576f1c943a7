// A queue beside those of the services: it gets a copy of each message that is sent to them.
//
// It is bound to the same exchange with the same keys, so that nothing changes for the services' own queues, and what
// comes to it is taken without acks. It belongs to its connection and is gone with it, however that ends. If its owner
// is too slow it drops its oldest messages: nobody who publishes ever waits for it, or is refused because of it.
#pragma once

#include "duplicator/captured.hpp"
#include "rabbitmq/connection.hpp"

#include <string>
#include <vector>

namespace skald::tools {

/// Every function throws rabbitmq::connection_lost when that is what happens. Threads: one at a time.
class tap
{
public:
    /// When this returns, whatever is sent to these services from now on comes here too.
    ///
    /// Their queues must be there: a message that only this queue takes counts as routed, and
    /// would never be sent again.
    tap(rabbitmq::connection_settings const& settings, sockets::socket_interrupter& interrupter,
        std::vector<std::string> services);

    /// The next message; nothing where none has come. Does not wait, but for the rest of one that has begun.
    captured_ptr next();

    /// Deletes the queue; nothing comes any more.
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
