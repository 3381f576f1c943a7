// The broker, as the other services see it: what they send to the participant, and what it sends to its saga's home.
#pragma once

#include "conform/wire_form.hpp"
#include "core/message.hpp"
#include "rabbitmq/connection.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace skald::conform {

/// Every function throws rabbitmq::connection_lost. Threads: one.
class wire
{
public:
    /// The participant's queue must exist. From now on, what is sent to the home comes here.
    wire(std::string const& url, std::string service);

    enum class way {
        exchange,  // as services send it
        queue,     // past the exchange, so that nobody sends it again
        parked,    // into the queue skald.SERVICE.parked
    };

    /// Returns when the broker has it.
    void send(core::message const& message, way by, wire_form form = wire_form::text);

    /// The next message to the home; nothing if none has arrived.
    std::optional<core::message> next();

    /// Waits for one, no longer than that.
    void wait(std::chrono::milliseconds longest);

    /// Deliveries in the participant's queue that no process holds; and how many consume it.
    struct depth
    {
        std::uint32_t ready{};
        std::uint32_t consumers{};
    };
    depth look();

    /// Empties it, and skald.SERVICE.parked.
    void purge();

private:
    void await_confirm();

    std::string service_;
    sockets::socket_interrupter interrupter_;
    rabbitmq::connection sends_;
    rabbitmq::connection reads_;
    rabbitmq::connection looks_;
};

}  // namespace skald::conform
