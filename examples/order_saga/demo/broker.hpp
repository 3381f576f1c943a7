// One connection to RabbitMQ over rabbitmq-c, closed by its destructor, with faults as exceptions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/framing.h>
#else
#include <amqp.h>
#include <amqp_framing.h>
#endif

namespace order_demo {

class broker_error : public std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// One captured delivery, with its properties and headers exactly as they came.
class delivery
{
public:
    /// Takes over what amqp_consume_message() has filled.
    explicit delivery(amqp_envelope_t const& filled) : envelope_{filled} {}
    ~delivery() { amqp_destroy_envelope(&envelope_); }
    delivery(delivery const&) = delete;
    delivery& operator=(delivery const&) = delete;

    amqp_envelope_t const& envelope() const { return envelope_; }

    /// The property of that name: which application published it, empty if it does not say so.
    std::string app_id() const;

private:
    amqp_envelope_t envelope_;
};

/// Threads: one at a time.
class broker
{
public:
    /// `url` is an amqp:// URL. Connects and opens one channel.
    explicit broker(std::string url);

    /// The same exchange, with the same arguments, that the services declare.
    void declare_exchange();

    /// Makes a queue of this connection alone, which takes a copy of all that is routed to the services, and consumes
    /// it.
    void capture_everything(std::string const& queue);

    /// Waits up to `wait_ms`; nothing if no delivery came.
    std::unique_ptr<delivery> next_delivery(int wait_ms);

    void expect_confirms();

    /// Publishes what was captured once more: same routing key, properties, headers and body, and `app_id` besides.
    void publish_copy(delivery const& original, std::string_view app_id);

    /// Until the broker has confirmed everything that was published.
    void wait_for_confirms();

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
    std::uint64_t published_{};
    std::set<std::uint64_t> unconfirmed_;
};

}  // namespace order_demo
