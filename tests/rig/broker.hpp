// One connection to RabbitMQ over rabbitmq-c, closed by its destructor; faults are exceptions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/framing.h>
#else
#include <amqp.h>
#include <amqp_framing.h>
#endif

namespace skald::rig {

class broker_error : public std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// Threads: one at a time.
class broker
{
public:
    /// `url` is an amqp:// URL. Connects and opens one channel.
    explicit broker(std::string url);

    struct queue_state
    {
        std::uint32_t ready;
        std::uint32_t consumers;
    };
    /// Nothing if there is no such queue.
    std::optional<queue_state> look_at(std::string const& queue);

private:
    struct closes
    {
        void operator()(amqp_connection_state_t connection) const;
    };
    amqp_connection_state_t get() const { return connection_.get(); }
    void open_channel();
    void check(amqp_rpc_reply_t const& reply, char const* doing) const;
    void check_status(int status, char const* doing) const;

    std::unique_ptr<amqp_connection_state_t_, closes> connection_;
};

}  // namespace skald::rig
