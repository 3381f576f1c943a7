// The exchanges and queues of Skald, declared at every connect. docs/protocol.md, "Routing".
//
//   publisher --> exchange skald --> queue skald.<service> --> worker
//                                        | after its delivery limit
//                     exchange skald.parked --> queue skald.<service>.parked --> the same worker, which parks it
#pragma once

#include "rabbitmq/connection.hpp"

#include <string>

namespace skald::rabbitmq {

inline constexpr char const* exchange_name = "skald";
inline constexpr char const* parked_exchange_name = "skald.parked";

std::string queue_name(std::string const& service);
std::string parked_queue_name(std::string const& service);
std::string database_queue_name(std::string const& service);

/// Throws: std::invalid_argument if no queue can be named after the service.
void check_service_name(std::string const& service);

/// Throws: topology_mismatch, connection_lost.
void declare_exchanges(connection& broker);

/// The exchanges too; and, with a `database`, that the queues are that one's: an empty queue `skald.<service>.database`
/// says so, whose arguments can't be changed. Throws: topology_mismatch, connection_lost.
void declare_queues(connection& broker, std::string const& service, std::string const& database);

}  // namespace skald::rabbitmq
