// What is between the services: the queues of a broker, or the inboxes in their databases. The demonstration looks at
// them, and has every message delivered a second time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "duplicator/duplicator.hpp"
#include "options.hpp"
#include "rig/shop_databases.hpp"

namespace order_demo {

/// Threads: one at a time.
class queues
{
public:
    virtual ~queues() = default;

    struct state
    {
        std::int64_t ready{};
        std::int64_t consumers{};
    };
    /// Nothing if the service has none yet.
    virtual std::optional<state> look_at(std::size_t service) = 0;

    /// From now on. A third of the messages is sent again at once, a third a moment later, and a third after hurry().
    virtual void copy_everything(std::uint64_t seed) = 0;

    /// To be called every few milliseconds. Throws what ended the copying, if something did.
    virtual void check() = 0;
    virtual void hurry() = 0;
    virtual skald::tools::duplicated copied() = 0;

    /// What a service's environment has, to use them.
    virtual std::map<std::string, std::string> variables() const = 0;
};

std::unique_ptr<queues> broker_queues(options const& chosen);

/// Over Kafka; where the demonstration was built with it.
std::unique_ptr<queues> kafka_queues(std::string const& brokers);

/// Writes the file that names the databases into the folder of the logs.
std::unique_ptr<queues> inbox_queues(options const& chosen);

}  // namespace order_demo
