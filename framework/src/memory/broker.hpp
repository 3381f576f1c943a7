// The broker of the in-memory transport: queues, and what is delivered but not acked.
//
// It does what a RabbitMQ with Skald's topology does, as far as the conformance suite can tell, but deterministically.
// Deliveries are handed over when a consumer takes them, not before.
#pragma once

#include "ports/transport.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace skald::memory {

/// Threads: every function may be called from any thread.
class broker
{
public:
    /// After more returns to the queue than this, a message is marked as given_up.
    static constexpr int delivery_limit = 50;

    // What a publisher sees.
    ports::receipt publish(ports::outgoing const& sent);
    std::string publishers_last_error() const;

    // What a subscription sees. `consumer` names it.
    std::uint64_t subscribe(ports::subscriber const& who);
    std::vector<ports::delivery> take(std::uint64_t consumer, std::size_t max, std::chrono::milliseconds wait);
    void ack(std::uint64_t consumer, ports::delivery_tag tag);
    void requeue(std::uint64_t consumer, ports::delivery_tag tag);
    void stop(std::uint64_t consumer);
    void unsubscribe(std::uint64_t consumer);
    std::string last_error_of(std::uint64_t consumer) const;

    // What a test does to it.
    void declare(std::string const& service);
    void inject(core::message const& message, std::string const& problem);
    void go_down();
    void come_back();
    void block(std::string reason);
    void unblock();
    void nack_next(std::size_t count);
    void lose_next_confirms(std::size_t count);
    std::vector<core::message> captured() const;
    std::size_t waiting(std::string const& service) const;

private:
    struct item
    {
        std::uint64_t order{};  // of its arrival; it keeps its place when it is returned
        core::message message;
        std::string problem;
        int returns{};
        bool given_up{};
        std::string handler{};
    };

    struct consumer_state
    {
        std::string service;
        std::uint16_t prefetch{};
        bool stopped{};
        std::map<std::uint64_t, item> unacked;  // by tag
    };

    using queue = std::map<std::uint64_t, item>;  // by order

    // The mutex is held for all of these.
    void enqueue(core::message const& message, std::string const& problem);
    void push(std::string const& service, std::string const& handler, core::message message, std::string problem);
    void give_back(consumer_state& from, std::uint64_t tag);
    void give_back_all(consumer_state& from);
    bool can_take(consumer_state const& who) const;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, queue> queues_;  // by service: its handlers' messages too
    // Services and handlers, by what is published to Skald's exchange: here there is no other.
    std::map<std::string, std::set<std::pair<std::string, std::string>>> handlers_;
    std::map<std::uint64_t, consumer_state> consumers_;
    std::vector<core::message> captured_;
    std::uint64_t last_order_{};
    std::uint64_t last_consumer_{};
    std::uint64_t last_tag_{};
    std::uint64_t generation_{1};
    bool down_{};
    std::string blocked_;
    std::size_t nacks_due_{};
    std::size_t lost_confirms_due_{};
};

}  // namespace skald::memory
