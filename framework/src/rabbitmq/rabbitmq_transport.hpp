// RabbitMQ as a transport: docs/protocol.md, "Routing", says what it expects and leaves on the broker.
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "ports/transport.hpp"
#include "rabbitmq/errors.hpp"
#include "rabbitmq/url.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace skald::rabbitmq {

struct options
{
    std::string url;                       // amqp[s]://user:password@host:port/vhost
    std::string connection_name{"skald"};  // shown by the broker, followed by "/publisher" or "/consumer"
    int heartbeat_seconds{20};             // 0 switches heartbeats off
    std::chrono::milliseconds connect_timeout{5'000};
    core::backoff reconnect{};
    std::size_t confirm_window{1'000};               // messages sent and not yet confirmed
    std::chrono::milliseconds rebind_every{15'000};  // how soon a binding that was deleted is there again
    std::uint64_t seed{0};                           // of the jitter; 0: random
    bool declares{true};                             // exchanges and queues; false: they must be there
    core::backoff barred{std::chrono::seconds{5}, std::chrono::minutes{1}};  // as publisher_settings::barred
};

/// Threads: open_publisher() and subscribe() may be called from any thread. Each publisher and each subscription has
/// its own connection, since a broker that is short of memory stops reading from connections that publish.
class rabbitmq_transport final : public ports::transport
{
public:
    /// Does not connect. The logger must outlive everything created here. Throws: std::invalid_argument for an invalid
    /// URL or value.
    rabbitmq_transport(options settings, core::logger& log);

    /// Tries to connect once. Throws: topology_mismatch.
    std::unique_ptr<ports::publisher> open_publisher() override;

    /// Declares the service's queues, or checks that they exist, and consumes from both; the parked one brings at most
    /// one delivery at a time in addition to `prefetch`. Waits for the first attempt to connect. Throws:
    /// topology_mismatch; std::invalid_argument for a name too long for a queue, or a prefetch of 0.
    std::unique_ptr<ports::subscription> subscribe(ports::subscriber const& who) override;

private:
    std::uint64_t next_seed() const;

    options options_;
    address where_;
    core::logger& log_;
};

}  // namespace skald::rabbitmq
