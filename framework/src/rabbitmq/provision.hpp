// What a service needs on a broker, created by an operator for a service that may not create it itself.
#pragma once

#include <string>

namespace skald::rabbitmq {

/// Declares the exchanges, the service's queues, and which `database` takes its messages; a second call changes
/// nothing. Throws: topology_mismatch, connection_lost, std::invalid_argument for a URL that is invalid or a name too
/// long for a queue.
void provision(std::string const& url, std::string const& service, std::string const& database);

}  // namespace skald::rabbitmq
