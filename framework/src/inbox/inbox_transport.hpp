// PostgreSQL alone as a transport: each service has an inbox in its own database, and a sender writes into it
// (docs/adr/0049-an-inbox-without-a-broker.md).
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "ports/transport.hpp"
#include "postgres/connection.hpp"
#include "postgres/service_databases.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace skald::inbox {

struct options
{
    postgres::connection_options database;          // the service's own: where its inbox is
    std::vector<postgres::service_database> peers;  // whose inboxes may be written into: the service's own, too
    core::backoff reconnect{};
    std::uint64_t seed{0};  // of the jitter; 0: random

    /// How often a consumer looks without having been told: for others that are gone. Messages are told of.
    std::chrono::milliseconds poll_every{1'000};
};

/// Threads: open_publisher() and subscribe() may be called from any thread. A publisher has a connection for each peer,
/// a subscription one.
class inbox_transport final : public ports::transport
{
public:
    /// Does not connect. The logger must outlive everything created here.
    inbox_transport(options settings, core::logger& log) : options_{std::move(settings)}, log_{log} {}

    /// Connects when it is first asked whether it is available.
    std::unique_ptr<ports::publisher> open_publisher() override;

    /// Declares the service's queues in its database. Waits for the first attempt to connect. Throws:
    /// std::invalid_argument for an empty name or a prefetch of 0; configuration_error for a handler that is bound to
    /// another exchange than Skald's own: there is none.
    std::unique_ptr<ports::subscription> subscribe(ports::subscriber const& who) override;

private:
    std::uint64_t next_seed() const;

    options options_;
    core::logger& log_;
};

}  // namespace skald::inbox
