// One connection's life as a consumer of a service's two queues.
#pragma once

#include "rabbitmq/ack_ledger.hpp"
#include "rabbitmq/connection.hpp"
#include "rabbitmq/content_reader.hpp"
#include "rabbitmq/mailbox.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace skald::rabbitmq {

/// Every function throws connection_lost when that is what happens.
class consumer_session
{
public:
    /// Connects, declares the queues and consumes from both. `generation` marks this connection's deliveries.
    /// Throws: topology_mismatch too.
    consumer_session(connection_settings const& settings, socket_breaker& breaker, std::string const& service,
                     std::uint16_t prefetch, std::uint64_t generation);

    /// Deals with some of what has arrived, and serves heartbeats. True if there may be more.
    bool read(mailbox& box);

    /// Settles deliveries of this connection; tags of others mean nothing any more.
    void settle(orders const& asked);

    /// No more deliveries; what is on its way goes back.
    void cancel();

    /// What was acked stays acked; everything else goes back.
    void close() noexcept;

    int socket() const { return broker_.socket(); }

private:
    void consume(std::string const& queue, std::uint16_t prefetch);
    void handle(amqp_method_t const& method);
    void hand_over(content arrived, mailbox& box);
    void give_back(std::uint64_t tag);
    void count_acks(std::size_t frames);
    void linger();

    std::string service_;
    std::uint64_t generation_;
    connection broker_;
    content_reader reader_;
    ack_ledger ledger_;
    bool cancelled_{};
    std::size_t recent_acks_{};  // frames, since recent_since_
    std::chrono::steady_clock::time_point recent_since_{};
};

}  // namespace skald::rabbitmq
