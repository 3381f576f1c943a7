// What an operator does on a broker for a service: looks at what is there, and creates what the service needs where it
// may not do so itself.
#pragma once

#include "ports/transport.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace skald::rabbitmq {

struct queue_depth
{
    std::uint32_t messages{};  // ready: not those that a worker holds unacked
    std::uint32_t consumers{};
};

/// The queue of a message handler, and what it is to be bound to.
struct handler_inspection
{
    std::string queue;
    std::optional<queue_depth> depth;            // nothing: there is no such queue
    std::vector<std::string> missing_exchanges;  // that it is to be bound to
    std::string may_not_consume;                 // as of the service's queues
    std::string mismatch;                        // likewise; of one of its exchanges too
    std::string may_not_declare;                 // likewise
};

/// A look that failed: at "exchange", "publishing", "queue", "consuming", "declaring", "replies" or "handler NAME".
struct failed_look
{
    std::string at;
    std::string why;
};

struct inspection
{
    std::string broker;  // "RabbitMQ 3.10.8"
    std::optional<std::string> missing_exchange;
    std::string takes_nothing;         // why it takes no messages now; empty if it does
    std::optional<queue_depth> queue;  // of the service; nothing if there is none
    std::optional<queue_depth> parked;
    std::string may_not_consume;  // which of the two this user may not consume, in the broker's words; empty if none
    std::string
        mismatch;  // what exists with other properties than Skald needs, and the remedy; empty if nothing is wrong
    std::string may_not_declare;  // what of it the services declare, and this user may not; empty if nothing
    std::vector<handler_inspection> handlers;  // in the order in which they were given
    std::string may_not_reply;  // why the broker takes no reply from this user, if there are handlers; empty if it does
    std::vector<failed_look> not_examined;
};

/// Only looks, and creates nothing. With an empty service, only the broker and the exchanges are inspected. With a
/// `database`: whether the queues are that one's. `declares`: whether the services, and so this user, may declare what
/// they need; otherwise it checks as they do. AMQP shows no bindings. Throws: connection_lost, std::invalid_argument
/// for a URL that is invalid.
inspection inspect(std::string const& url, std::string const& service, std::string const& database = {},
                   bool declares = true);

/// The same, but what the broker refuses, or fails to answer once it has been reached, hides nothing else.
inspection inspect_all(std::string const& url, std::string const& service, std::string const& database, bool declares,
                       std::vector<ports::handler_queue> const& handlers);

/// What waits in the queue of a service; nothing: it has none. Throws the same.
std::optional<queue_depth> depth_of_service(std::string const& url, std::string const& service);

/// Declares the exchanges, the service's queues and those of its message handlers, and which `database` takes its
/// messages; a second call changes nothing. Throws: topology_mismatch, connection_lost, std::invalid_argument for a URL
/// that is invalid or a name too long for a queue.
void provision(std::string const& url, std::string const& service, std::string const& database,
               std::vector<ports::handler_queue> const& handlers = {});

}  // namespace skald::rabbitmq
