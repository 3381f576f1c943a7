// The lifetime of one connection as a consumer of a service's two queues.
#pragma once

#include "rabbitmq/ack_ledger.hpp"
#include "rabbitmq/connection.hpp"
#include "rabbitmq/content_reader.hpp"
#include "transports/mailbox.hpp"
#include "transports/slow_start.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace skald::rabbitmq {

struct consumer_settings
{
    ports::subscriber who;
    std::chrono::milliseconds rebind_every{};
    bool with_parked{true};  // consume from the parked queue too
    bool declares{true};     // the queues; false: they must be there
};

/// The parked queue holds a message that can't be decoded. It stays there for an operator: consuming from that queue
/// again would end every connection.
class parked_undecodable : public connection_lost
{
public:
    using connection_lost::connection_lost;
};

/// Every function throws connection_lost if the connection is lost.
class consumer_session
{
public:
    /// Connects, declares the queues or checks that they exist, and requests their deliveries. `generation` marks them
    /// as this connection's. Throws: topology_mismatch too.
    consumer_session(connection_settings const& settings, sockets::socket_interrupter& interrupter,
                     consumer_settings const& consumer, std::uint64_t generation);

    /// Declares the exchanges and binds the queues again from time to time: deleting one of them cancels no consumer,
    /// and nothing else would create it again. Does not wait for the answers.
    void keep_bound();

    /// Processes some of what has arrived, and serves heartbeats. True if there may be more. Throws: parked_undecodable
    /// too.
    bool read(transports::mailbox& box);

    /// Why a policy of the broker has moved messages out of the queue before they were delivered: `expired`, `maxlen`;
    /// empty if none has.
    std::string const& dead_lettered() const { return dead_lettered_; }

    /// The broker has agreed to deliver.
    bool consuming() const { return consumers_agreed_ >= (consumer_.with_parked ? 1u : 0u) + queues_.size(); }

    /// Acks and returns deliveries of this connection; tags of other connections mean nothing any more.
    void send_acks(transports::requests const& asked);

    /// No more deliveries; those on their way are returned.
    void cancel();

    /// What was acked stays acked; everything else goes back to the queue.
    void close() noexcept;

    int socket() const { return broker_.socket(); }

private:
    struct consumed
    {
        std::string queue;  // and the first consumer's tag
        std::uint16_t prefetch{};
        transports::slow_start start;
        std::string second_tag;  // empty: few are out yet
    };

    void start_consuming(std::string const& queue, std::uint16_t prefetch);
    void consume(std::string const& queue, std::size_t prefetch, std::string const& tag);
    void stop_consuming(std::string const& tag);
    void widen();
    consumed* queue_of(std::string_view tag);
    void settled(std::uint64_t tag);
    bool read_one();
    void handle(amqp_method_t const& method);
    [[noreturn]] void park_unreadable(std::string const& why);
    void record(content arrived);
    void deliver_to(transports::mailbox& box);
    void give_back(std::uint64_t tag);
    void count_acks(std::size_t frames);
    void linger();

    std::chrono::steady_clock::time_point bound_at_{std::chrono::steady_clock::now()};
    consumer_settings consumer_;
    std::uint64_t generation_;
    connection broker_;
    content_reader reader_;
    ack_ledger ledger_;
    std::vector<ports::delivery> arrived_;  // in this iteration
    std::string dead_lettered_;
    std::vector<consumed> queues_;  // but the parked one
    std::size_t consumers_agreed_{};
    bool cancelled_{};
    std::size_t recent_acks_{};  // frames, since recent_since_
    std::chrono::steady_clock::time_point recent_since_{};
};

}  // namespace skald::rabbitmq
