// The transport port: how messages leave this process and how deliveries reach it.
//
// Every adapter (RabbitMQ, the in-memory one of the tests) passes tests/conformance/transport_conformance.hpp.
// The contract is at-least-once: a message may arrive twice, late or out of order; the guard absorbs that.
#pragma once

#include "core/message.hpp"

#include <skald/message.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace skald::ports {

/// A message to be sent, with the caller's own number for it.
struct outgoing
{
    std::int64_t row{};
    core::message message;
};

enum class publish_status {
    confirmed,   // the broker has it, routed and durable
    returned,    // no queue is bound for its destination
    nacked,      // the broker refused to take responsibility for it
    refused,     // it can never be sent as it is (a field too long for the wire)
    barred,      // the broker takes nothing for its exchange: this user may not write there, or there is none; or some
                 // have it, and one that it may be for too can't be reached: each try sends it to all
    unresolved,  // the connection was lost, blocked or too slow: it may or may not have arrived
};

struct receipt
{
    std::int64_t row{};
    publish_status status{publish_status::unresolved};
    std::string reason;  // empty if confirmed, otherwise one line for an operator
};

/// Sends messages and learns the outcome of each.
/// Threads: one; interrupt() may be called from any.
class publisher
{
public:
    virtual ~publisher() = default;

    /// Connected and not blocked by the broker. If not connected, tries to connect when the backoff allows it; bounded
    /// by a few seconds, never throws. `false` means: open no transaction, try again later. Call this or collect() at
    /// least once a second while there is nothing to publish: both serve heartbeats and the broker's notices.
    virtual bool available() = 0;

    /// Sends without waiting for the confirms: collect() returns exactly one receipt for each message, in any order.
    /// A message without a confirm within about `deadline` is `unresolved`, and so is one that can't be sent by then.
    /// Never throws because of the broker. Blocks while the socket accepts no more, or while too many messages wait for
    /// their confirms.
    virtual void send(std::span<outgoing const> messages, std::chrono::milliseconds deadline) = 0;

    /// The available receipts. If there are none it waits for the first, at most `wait`, and no longer than until
    /// interrupt().
    virtual std::vector<receipt> collect(std::chrono::milliseconds wait) = 0;

    /// Ends the wait of collect(), or of its next call if none is waiting now.
    virtual void interrupt() noexcept = 0;

    /// Why `available()` was false, for logs and health; empty if it is available.
    virtual std::string last_error() const = 0;
};

/// Names one delivery on the connection that brought it. An ack that comes after a reconnect is dropped silently: the
/// broker delivers the message again.
struct delivery_tag
{
    std::uint64_t generation{};
    std::uint64_t number{};
    std::uint32_t channel{};
};

struct delivery
{
    delivery_tag tag;
    int returns{};        // how often it was returned unacked; 1 if the broker says only that it was redelivered
    bool given_up{};      // the broker has stopped delivering it (its delivery limit)
    std::string problem;  // not empty: it can't be read as a message (for example a header type without a text form)
    core::message message;
    std::string handler{};  // the message handler whose queue it came from; empty: the service's own queue
};

/// The deliveries for one service.
/// Threads: every function may be called from any thread.
class subscription
{
public:
    virtual ~subscription() = default;

    /// Waits until a delivery is there, `wait` is over or stop() was called; then takes what has arrived, at most
    /// `max`, without waiting for more. Empty if nothing arrived.
    virtual std::vector<delivery> take(std::size_t max, std::chrono::milliseconds wait) = 0;

    /// Done with it, for good. Only after COMMIT.
    virtual void ack(delivery_tag tag) = 0;

    /// Put it back to be delivered again, to any consumer. Counts towards the broker's delivery limit: use rarely.
    virtual void requeue(delivery_tag tag) = 0;

    /// Hands out nothing more; what was not taken goes back to the broker. Acks still work until destruction, which
    /// sends those that are pending.
    virtual void stop() = 0;

    /// Connected and consuming.
    virtual bool available() const = 0;
    virtual std::string last_error() const = 0;
};

/// Messages for one handler of a service (skald/message_handler.hpp): a queue of its own.
struct handler_queue
{
    std::string handler;
    std::uint16_t prefetch{};
    std::vector<message_binding> bindings{};
};

struct subscriber
{
    std::string service;
    std::uint16_t prefetch{};  // how many deliveries may be out (taken or waiting to be) and not yet acked
    std::string database{};    // identifies the service's database; empty: not compared
    std::vector<handler_queue> handlers{};
    std::optional<std::chrono::sys_seconds> forgot_before{};  // the guard's records from before are gone, to the hour
};

/// In what transports may differ.
struct capabilities
{
    /// Each consumer of a service may take any of its messages. Otherwise a consumer has whole parts of them (Kafka's
    /// partitions): others get nothing of those, whatever room they have, and get the whole part when it ends or stops,
    /// with what it has taken and not acked by then.
    bool divides_by_message{true};
};

class transport
{
public:
    virtual ~transport() = default;

    virtual capabilities can() const { return {}; }

    virtual std::unique_ptr<publisher> open_publisher() = 0;

    /// The service's deliveries belong to one database: the one that subscribed first, if that is known. A process with
    /// another database takes nothing.
    virtual std::unique_ptr<subscription> subscribe(subscriber const& who) = 0;
};

}  // namespace skald::ports
