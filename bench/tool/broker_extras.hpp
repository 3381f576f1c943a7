// What else the bench needs from the broker: its version, and queues of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#else
#include <amqp.h>
#endif

namespace skald_bench {

/// Of an amqp:// URL. Throws std::runtime_error.
int port_of(std::string const& broker_url);

std::string version_of_broker(std::string const& broker_url);

/// An argument of a queue. `name` and `value` must outlive it.
amqp_table_entry_t text_entry(char const* name, char const* value);
amqp_table_entry_t number_entry(char const* name, std::int64_t value);

/// A connection with one channel. Threads: one at a time. Throws std::runtime_error.
class broker_connection
{
public:
    explicit broker_connection(std::string url);

    std::string version() const;
    void declare_exchange(char const* name, char const* type);
    void declare_queue(char const* name, std::vector<amqp_table_entry_t> arguments);
    void bind_queue(std::string const& queue, char const* exchange, std::string const& routing_key);
    void delete_queue(char const* name);

private:
    struct closes
    {
        void operator()(amqp_connection_state_t c) const { amqp_destroy_connection(c); }
    };
    void check(char const* doing) const;
    amqp_connection_state_t get() const { return connection_.get(); }
    std::unique_ptr<amqp_connection_state_t_, closes> connection_;
};

}  // namespace skald_bench
