// Skald's exchanges and queues, declared or checked for at every connect. docs/protocol.md, "Routing".
//
//   publisher --> exchange skald --> queue skald.<service> --> worker
//                                        | after its delivery limit
//                     exchange skald.parked --> queue skald.<service>.parked --> the same worker, which parks it
#pragma once

#include "ports/transport.hpp"
#include "rabbitmq/connection.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace skald::rabbitmq {

inline constexpr char const* exchange_name = "skald";
inline constexpr char const* parked_exchange_name = "skald.parked";

std::string queue_name(std::string const& service);
std::string handler_queue_name(std::string const& service, std::string const& handler);
std::string parked_queue_name(std::string const& service);
std::string database_queue_name(std::string const& service);
std::string marker_queue_name(std::string const& service, std::string const& database);

/// Throws: std::invalid_argument if no queue can be named after the service.
void check_service_name(std::string const& service);

/// Throws: topology_mismatch, connection_lost.
void declare_exchanges(connection& broker);

/// Binds again what declare_queues() has bound, without waiting for an answer: if one of the exchanges now has other
/// properties, the broker closes the channel. Throws: connection_lost.
void renew_bindings(connection& broker, std::string const& service,
                    std::vector<ports::handler_queue> const& handlers = {});

/// Checks that the existing queues are as Skald needs them; changes nothing. Throws: topology_mismatch,
/// connection_lost.
void check_queues(connection& broker, std::string const& service, std::string const& database);

/// The exchanges too; and, with a `database`, that the queues are that one's, as recorded by an empty queue
/// `skald.<service>.database`, whose arguments can't change. Throws: topology_mismatch, connection_lost.
void declare_queues(connection& broker, std::string const& service, std::string const& database);

/// In addition: the empty queue `skald.<service>.database.<database>`, by whose name a process that declares nothing
/// sees that its database is the right one. Throws: topology_mismatch, connection_lost.
void declare_marker(connection& broker, std::string const& service, std::string const& database);

/// The same for a process that declares nothing: whatever is missing is a topology_mismatch that names it. Whether
/// queues have the right arguments and bindings can't be seen this way. Throws: connection_lost too.
void expect_exchanges(connection& broker);
void expect_queues(connection& broker, std::string const& service, std::string const& database);

/// The queue of a message handler, with its bindings; and the exchanges of others whose types are given. Throws:
/// topology_mismatch too, if an exchange is missing.
void declare_handler(connection& broker, std::string const& service, ports::handler_queue const& handler);

/// Checks that its queue, which exists, and the exchanges of others whose types are given, are as they should be; binds
/// nothing. Throws: topology_mismatch.
void check_handler(connection& broker, std::string const& service, ports::handler_queue const& handler);

/// Checks that the queue is there.
void expect_handler(connection& broker, std::string const& service, ports::handler_queue const& handler);

/// The handler whose queue it is; empty: it is none's.
std::string handler_of_queue(std::string_view queue, std::string const& service);

}  // namespace skald::rabbitmq
