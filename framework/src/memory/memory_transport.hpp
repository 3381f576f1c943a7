// A transport within the process, for tests: it passes the same conformance suite as RabbitMQ's.
#pragma once

#include "memory/broker.hpp"
#include "ports/transport.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace skald::memory {

/// Copies share one broker, so that several "processes" can meet on it. The broker lives as long as anything made here.
/// Threads: every function may be called from any thread.
class memory_transport final : public ports::transport
{
public:
    memory_transport() : broker_{std::make_shared<broker>()} {}

    std::unique_ptr<ports::publisher> open_publisher() override;

    /// Throws: std::invalid_argument for an empty name or a prefetch of 0.
    std::unique_ptr<ports::subscription> subscribe(ports::subscriber const& who) override;

    // What a test does to the broker.

    /// Makes the service's queue, as its first subscription would.
    void declare(std::string const& service) { broker_->declare(service); }

    /// Puts a message into the queue of its destination with no check at all, as a hostile peer would, and makes the
    /// queue if needed. `problem` becomes that of the delivery.
    void inject(core::message const& message, std::string const& problem = {});

    /// Every connection is lost: unacked deliveries come again. Queues keep what is in them.
    void go_down() { broker_->go_down(); }
    void come_back() { broker_->come_back(); }

    /// The broker takes nothing from publishers, as under a memory alarm.
    void block(std::string reason = "low on memory") { broker_->block(std::move(reason)); }
    void unblock() { broker_->unblock(); }

    /// The next `count` messages are refused by the broker.
    void nack_next(std::size_t count) { broker_->nack_next(count); }

    /// The next `count` messages arrive, but their confirms are lost: their receipts are `unresolved`.
    void lose_next_confirms(std::size_t count) { broker_->lose_next_confirms(count); }

    /// Every message that was published and arrived, in order; not those injected.
    std::vector<core::message> captured() const { return broker_->captured(); }

    /// How many messages wait to be taken.
    std::size_t waiting(std::string const& service) const { return broker_->waiting(service); }

private:
    std::shared_ptr<broker> broker_;
};

}  // namespace skald::memory
