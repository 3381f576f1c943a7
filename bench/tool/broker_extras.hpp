// What the bench needs of the broker besides: its version, a way to deliver everything twice, a
// queue that keeps nothing.
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

/// A connection with one channel. Threads: one at a time. Throws std::runtime_error.
class broker_connection
{
public:
    explicit broker_connection(std::string url);

    std::string version() const;
    void declare_exchange(char const* name, char const* type);
    void bind_exchange(char const* source, std::string const& routing_key, char const* destination);
    /// Of this connection alone, and gone with it; or durable.
    void declare_queue(char const* name, bool exclusive, std::vector<amqp_table_entry_t> arguments);
    void bind_queue(std::string const& queue, char const* exchange, std::string const& routing_key,
                    std::vector<amqp_table_entry_t> arguments = {});
    std::uint32_t count(char const* queue);
    void purge(std::string const& queue);
    void delete_queue(char const* name);
    void delete_exchange(char const* name);

private:
    struct closes
    {
        void operator()(amqp_connection_state_t c) const { amqp_destroy_connection(c); }
    };
    void check(char const* doing) const;
    amqp_connection_state_t get() const { return connection_.get(); }
    std::unique_ptr<amqp_connection_state_t_, closes> connection_;
};

/// As long as it lives, the broker delivers the messages of sagas of the scope `again` once more, half a second later,
/// when the first has been settled. No client takes part: a copy of each goes to a queue in which it expires at once,
/// and from there, as a dead letter, to the service's queue.
class every_message_again
{
public:
    explicit every_message_again(std::string const& broker_url);
    ~every_message_again();
    every_message_again(every_message_again const&) = delete;
    every_message_again& operator=(every_message_again const&) = delete;

    /// How many wait now.
    std::uint32_t waiting() { return broker_.count(queue); }

    static constexpr char const* scope = "again";

private:
    static constexpr char const* queue = "skald.bench.again";
    broker_connection broker_;
};

/// A quorum queue for the backlog's messages, which keeps only the last few of them.
class message_sink
{
public:
    explicit message_sink(std::string const& broker_url);
    ~message_sink();
    message_sink(message_sink const&) = delete;
    message_sink& operator=(message_sink const&) = delete;

private:
    static constexpr char const* queue = "skald.bench.sink";
    broker_connection broker_;
};

}  // namespace skald_bench
