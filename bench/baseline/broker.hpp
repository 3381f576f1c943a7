// rabbitmq-c with a destructor: one connection with one channel, for a lane that consumes or for the relay.
#pragma once

#include "message.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#else
#include <amqp.h>
#endif

namespace bench_baseline {

struct broker_error : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// Threads: one at a time. Throws broker_error.
class broker
{
public:
    explicit broker(std::string url);

    /// The exchange and the queue with the arguments that Skald gives them, so that both can use them in turn.
    void declare(std::string const& service);

    void consume(std::string const& service, std::uint16_t prefetch);

    struct delivery
    {
        message content;
        std::uint64_t tag{};
    };
    /// Waits that long; nothing if nothing came.
    std::optional<delivery> next(std::chrono::milliseconds wait);

    /// Acks this delivery and all before it.
    void ack_up_to(std::uint64_t tag);

    void expect_confirms();
    void publish(message const& m);

    /// What has been confirmed by now, as an interval of the publishing order, counted from 1; waits that long for the
    /// first. Throws if the broker nacked or returned one.
    struct confirmed
    {
        std::uint64_t tag{};
        bool all_before{};
    };
    std::optional<confirmed> next_confirm(std::chrono::microseconds wait);

private:
    struct closes
    {
        void operator()(amqp_connection_state_t c) const { amqp_destroy_connection(c); }
    };
    amqp_connection_state_t get() const { return connection_.get(); }
    void check(char const* doing) const;
    void check(amqp_rpc_reply_t const& reply, char const* doing) const;
    void check_status(int status, char const* doing) const;
    void declare_queue(std::string const& name, std::vector<amqp_table_entry_t> arguments, char const* exchange,
                       std::string const& service);

    std::unique_ptr<amqp_connection_state_t_, closes> connection_;
};

}  // namespace bench_baseline
