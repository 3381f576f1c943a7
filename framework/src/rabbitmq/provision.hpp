// What a service needs of a broker, made by an operator for a service that may not make it itself.
#pragma once

#include <string>

namespace skald::rabbitmq {

/// Declares the exchanges, the service's queues, and by which `database` they are taken; a second time it changes
/// nothing. Throws: topology_mismatch, connection_lost, std::invalid_argument for a URL that can't be meant or a name
/// too long for a queue.
void provision(std::string const& url, std::string const& service, std::string const& database);

}  // namespace skald::rabbitmq
