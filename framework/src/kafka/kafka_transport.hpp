// Kafka as a transport (docs/adr/0050-kafka.md).
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "kafka/client.hpp"
#include "kafka/topics.hpp"
#include "ports/transport.hpp"

#include <skald/config.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace skald::kafka_detail {

struct options
{
    std::string name{"skald"};   // of the connections, for people
    std::string brokers;         // `host:port`, and more after commas: some of the cluster
    property_list properties{};  // further ones of librdkafka: for TLS and SASL
    topic_shape shape{};
    bool declares{true};  // makes the topics of a service that are missing
    core::backoff reconnect{};
    std::uint64_t seed{0};  // of the jitter; 0: random
    std::chrono::milliseconds drain{5'000};
    std::chrono::hours guarded{24 * 30};  // how long the guard remembers
};

/// Throws configuration_error for brokers that are missing, and for a file of properties that can't be read.
options read_options(std::string name, config const& settings);

/// Of a client that connects as these say.
property_list connection_properties(options const& settings);

/// Threads: open_publisher() and subscribe() may be called from any thread. Each has a client of librdkafka, which has
/// threads of its own and a connection to each broker that it needs.
class kafka_transport final : public ports::transport
{
public:
    /// Does not connect. The logger must outlive everything created here.
    kafka_transport(options settings, core::logger& log) : options_{std::move(settings)}, log_{log} {}

    ports::capabilities can() const override { return {.divides_by_message = false}; }

    /// Connects when it is first asked whether it is available.
    std::unique_ptr<ports::publisher> open_publisher() override;

    /// Joins the service's group. Waits for the first attempt. Throws: std::invalid_argument for an empty name or a
    /// prefetch of 0; configuration_error for a topic that is missing and that this process may not make, a handler
    /// that is bound in a way that Kafka does not have, and a property that librdkafka does not take.
    std::unique_ptr<ports::subscription> subscribe(ports::subscriber const& who) override;

private:
    std::uint64_t next_seed() const;

    options options_;
    core::logger& log_;
};

}  // namespace skald::kafka_detail
