// What a broker has of a service's topology, for an operator. Looks, and makes nothing that is not there.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace skald::rabbitmq {

struct queue_depth
{
    std::uint32_t messages{};  // ready: not those that a worker has and has not acked
    std::uint32_t consumers{};
};

struct inspection
{
    std::string broker;  // "RabbitMQ 3.10.8"
    std::optional<std::string> missing_exchange;
    std::string takes_nothing;         // why it takes no messages now; empty where it does
    std::optional<queue_depth> queue;  // of the service; nothing where there is none
    std::optional<queue_depth> parked;
    std::string
        mismatch;  // what exists with other properties than Skald needs, and the remedy; empty where all is well
};

/// An empty service: only the broker and the exchanges are looked at. With a `database`: whether the queues are that
/// one's. `declares`: the services declare what they need, and so may this user; or it is looked at as they do. Throws:
/// connection_lost, std::invalid_argument for a URL that can't be meant.
inspection inspect(std::string const& url, std::string const& service, std::string const& database = {},
                   bool declares = true);

}  // namespace skald::rabbitmq
