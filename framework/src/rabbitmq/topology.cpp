#include "rabbitmq/topology.hpp"

#include "core/foreign_message.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace skald::rabbitmq {
namespace {

// A message that kills its worker every time comes back this often before the broker dead-letters it. Not lower: each
// lost connection counts as a try for everything that was prefetched on it.
constexpr std::int64_t delivery_limit = 50;

// It is retried until it succeeds, as after a wrong password.
constexpr char const* without_permission =
    "let this user configure it, or have `skald declare` make it and set SKALD_DECLARE=off";

struct binding
{
    std::string queue;
    std::string exchange;
    std::string routing_key;
};

/// Runs a declaration and explains what it means if the thing exists already, but with other properties.
template <class Declare>
void declare(connection& broker, std::string const& what, std::string const& remedy, Declare call)
{
    try {
        call();
        broker.check_last(("declaring " + what).c_str());
    }
    catch (refused_by_broker const& refusal) {
        if (refusal.code() == AMQP_ACCESS_REFUSED)
            throw refused_by_broker{refusal.code(), fmt::format("{}; {}", refusal.what(), without_permission)};
        // "queue limit in vhost '/' (8) is reached": the same code, but this is retried.
        if (std::string_view{refusal.what()}.find("limit in vhost") != std::string_view::npos)
            throw refused_by_broker{refusal.code(), fmt::format("{}; raise it (`rabbitmqctl{} set_vhost_limits`)",
                                                                refusal.what(), vhost_option(broker.vhost()))};
        bool const exists = refusal.code() == AMQP_PRECONDITION_FAILED || refusal.code() == AMQP_RESOURCE_LOCKED;
        if (!exists) throw;
        throw topology_mismatch{fmt::format("{} exists with other properties than Skald needs: {}{}{}", what,
                                            refusal.what(), remedy.empty() ? "" : "; ", remedy)};
    }
}

void declare_exchange(connection& broker, char const* name, char const* type, std::string const& remedy)
{
    declare(broker, fmt::format("exchange `{}`", name), remedy, [&] {
        amqp_exchange_declare(broker.raw(), the_channel, amqp_cstring_bytes(name), amqp_cstring_bytes(type),
                              /*passive*/ 0, /*durable*/ 1, /*auto_delete*/ 0, /*internal*/ 0, amqp_empty_table);
    });
}

void declare_own_exchange(connection& broker, char const* name)
{
    declare_exchange(
        broker, name, "direct",
        fmt::format("delete it (`rabbitmqadmin{} delete exchange name={}`) or use another vhost; then start again",
                    vhost_option(broker.vhost()), name));
}

void declare_queue(connection& broker, std::string const& name, std::string const& remedy, amqp_table_t arguments)
{
    declare(broker, fmt::format("queue `{}`", name), remedy, [&] {
        amqp_queue_declare(broker.raw(), the_channel, bytes(name), /*passive*/ 0, /*durable*/ 1, /*exclusive*/ 0,
                           /*auto_delete*/ 0, arguments);
    });
}

void declare_queue(connection& broker, std::string const& name, amqp_table_t arguments)
{
    declare_queue(
        broker, name,
        fmt::format("delete it (`rabbitmqctl{} delete_queue {}`) and start again: it is declared as it must be. Its "
                    "messages go with it: move them first, see docs/repair.md, \"A queue with other properties\"",
                    vhost_option(broker.vhost()), name),
        arguments);
}

// A queue whose deliveries are run. `left_with` is the key with which those that come back too often leave it.
// Dead-lettering is at-most-once by default; at-least-once requires reject-publish.
void declare_consumed(connection& broker, std::string const& name, std::string const& left_with)
{
    std::array arguments{argument("x-queue-type", "quorum"),
                         argument("x-delivery-limit", delivery_limit),
                         argument("x-dead-letter-exchange", parked_exchange_name),
                         argument("x-dead-letter-routing-key", left_with.c_str()),
                         argument("x-dead-letter-strategy", "at-least-once"),
                         argument("x-overflow", "reject-publish")};
    declare_queue(broker, name, {static_cast<int>(arguments.size()), arguments.data()});
}

// An exchange that a handler's queue is bound to, if its type was given. Skald's own is declared anyway.
void declare_if_typed(connection& broker, message_binding const& one)
{
    if (one.type.empty() || one.exchange == exchange_name) return;
    declare_exchange(broker, one.exchange.c_str(), one.type.c_str(),
                     "it may be another team's: give message_binding{.type} as it is, or leave that out");
}

// The broker compares a queue's arguments with the existing ones in one atomic step: of two databases one is first.
// Nothing is ever sent to this queue, so its dead-letter key can hold the id of the database.
void bind_database(connection& broker, std::string const& service, std::string const& database)
{
    auto const name = database_queue_name(service);
    std::array arguments{argument("x-queue-type", "quorum"), argument("x-dead-letter-exchange", parked_exchange_name),
                         argument("x-dead-letter-routing-key", database.c_str())};
    try {
        declare_queue(broker, name, "", {static_cast<int>(arguments.size()), arguments.data()});
    }
    catch (topology_mismatch const& mismatch) {
        throw topology_mismatch{
            fmt::format("the messages for {0} belong to another database, and this process is "
                        "connected to the database {1}: check "
                        "DATABASE_URL. If the service has moved to a new database "
                        "permanently, stop its processes, delete the queue "
                        "that records the old one (`rabbitmqctl{4} delete_queue {2}`; and {2}.ID of "
                        "the old one where `skald declare` has made that) and start again. ({3})",
                        service, database, name, mismatch.what(), vhost_option(broker.vhost()))};
    }
}

void bind_queue(connection& broker, std::string const& queue, char const* exchange, std::string const& service)
{
    amqp_queue_bind(broker.raw(), the_channel, bytes(queue), amqp_cstring_bytes(exchange), bytes(service),
                    amqp_empty_table);
    broker.check_last(("binding queue `" + queue + "`").c_str());
}

/// Checks for something that others should have created. A broker requires no permission for checking.
template <class Check>
void expect(connection& broker, std::string const& what, std::string const& remedy, Check check)
{
    try {
        check();
        broker.check_last(("looking for " + what).c_str());
    }
    catch (refused_by_broker const& refusal) {
        if (refusal.code() != AMQP_NOT_FOUND) throw;
        throw topology_mismatch{fmt::format(
            "{} does not exist, and is not declared here (SKALD_DECLARE=off, or it is another's); {}", what, remedy)};
    }
}

void expect_exchange(connection& broker, char const* name, std::string const& remedy)
{
    expect(broker, fmt::format("exchange `{}`", name), remedy, [&] {
        amqp_exchange_declare(broker.raw(), the_channel, amqp_cstring_bytes(name), amqp_cstring_bytes("direct"),
                              /*passive*/ 1, /*durable*/ 1, /*auto_delete*/ 0, /*internal*/ 0, amqp_empty_table);
    });
}

void expect_queue(connection& broker, std::string const& name, std::string const& remedy)
{
    expect(broker, fmt::format("queue `{}`", name), remedy, [&] {
        amqp_queue_declare(broker.raw(), the_channel, bytes(name), /*passive*/ 1, /*durable*/ 1, /*exclusive*/ 0,
                           /*auto_delete*/ 0, amqp_empty_table);
    });
}

std::string made_by(std::string const& service, std::string const& more = {})
{
    return fmt::format("an operator makes it with `skald declare --service {}{}`", service, more);
}

// A process that only checks does not see a queue's arguments, only its name: the one of this database must exist.
void expect_database(connection& broker, std::string const& service, std::string const& database)
{
    auto const name = marker_queue_name(service, database);
    expect_queue(broker, name,
                 fmt::format("it records that the messages for {} belong to the database {}, to which this process "
                             "is connected: check DATABASE_URL. If that is right, {}",
                             service, database, made_by(service)));
}

}  // namespace

std::string queue_name(std::string const& service)
{
    return "skald." + service;
}

std::string handler_queue_name(std::string const& service, std::string const& handler)
{
    return "skald." + core::handler_destination(service, handler);
}

std::string handler_of_queue(std::string_view queue, std::string const& service)
{
    constexpr std::string_view prefix{"skald."};
    return queue.starts_with(prefix) ? std::string{core::handler_of(queue.substr(prefix.size()), service)}
                                     : std::string{};
}

std::string parked_queue_name(std::string const& service)
{
    return queue_name(service) + ".parked";
}

std::string database_queue_name(std::string const& service)
{
    return queue_name(service) + ".database";
}

std::string marker_queue_name(std::string const& service, std::string const& database)
{
    return database_queue_name(service) + '.' + database;
}

void check_service_name(std::string const& service)
{
    if (service.empty() || database_queue_name(service).size() > 255)
        throw std::invalid_argument{fmt::format("a service's name has 1 to {} bytes, this one {}",
                                                255 - database_queue_name("").size(), service.size())};
}

void declare_exchanges(connection& broker)
{
    declare_own_exchange(broker, exchange_name);
    declare_own_exchange(broker, parked_exchange_name);
    broker.release_buffers();
}

void check_queues(connection& broker, std::string const& service, std::string const& database)
{
    if (!database.empty()) bind_database(broker, service, database);

    // The parked queue first: from the moment the other one exists, the broker may have something to dead-letter.
    std::array parked_arguments{argument("x-queue-type", "quorum")};
    declare_queue(broker, parked_queue_name(service),
                  {static_cast<int>(parked_arguments.size()), parked_arguments.data()});

    declare_consumed(broker, queue_name(service), service);
    broker.release_buffers();
}

void check_handler(connection& broker, std::string const& service, ports::handler_queue const& handler)
{
    declare_consumed(broker, handler_queue_name(service, handler.handler),
                     core::handler_destination(service, handler.handler));
    for (auto const& one : handler.bindings) declare_if_typed(broker, one);
    broker.release_buffers();
}

void declare_handler(connection& broker, std::string const& service, ports::handler_queue const& handler)
{
    auto const queue = handler_queue_name(service, handler.handler);
    auto const address = core::handler_destination(service, handler.handler);
    declare_consumed(broker, queue, address);
    bind_queue(broker, parked_queue_name(service), parked_exchange_name, address);
    bind_queue(broker, queue, exchange_name, address);  // for what is tried again
    for (auto const& one : handler.bindings) {
        auto const* const exchange = one.exchange.c_str();
        declare_if_typed(broker, one);
        if (one.type.empty() && one.exchange != exchange_name)
            expect_exchange(broker, exchange, "its owner declares it; or give message_binding{.type}");
        bind_queue(broker, queue, exchange, one.routing_key);
    }
    broker.release_buffers();
}

void expect_handler(connection& broker, std::string const& service, ports::handler_queue const& handler)
{
    std::string named;
    for (auto const& one : handler.bindings)
        named += fmt::format(" --handler '{}={}:{}'", handler.handler, one.exchange, one.routing_key);
    if (named.empty()) named = " --handler " + handler.handler;
    expect_queue(broker, handler_queue_name(service, handler.handler), made_by(service, named));
    broker.release_buffers();
}

void declare_queues(connection& broker, std::string const& service, std::string const& database)
{
    declare_exchanges(broker);
    check_queues(broker, service, database);
    bind_queue(broker, parked_queue_name(service), parked_exchange_name, service);
    bind_queue(broker, queue_name(service), exchange_name, service);
    broker.release_buffers();
}

void renew_bindings(connection& broker, std::string const& service, std::vector<ports::handler_queue> const& handlers)
{
    for (auto const* const name : {exchange_name, parked_exchange_name}) {
        amqp_exchange_declare_t exchange{};
        exchange.exchange = amqp_cstring_bytes(name);
        exchange.type = amqp_cstring_bytes("direct");
        exchange.durable = 1;
        exchange.nowait = 1;
        broker.send(AMQP_EXCHANGE_DECLARE_METHOD, &exchange, "declaring an exchange again");
    }
    std::vector<binding> all{{parked_queue_name(service), parked_exchange_name, service},
                             {queue_name(service), exchange_name, service}};
    for (auto const& one : handlers) {
        auto const queue = handler_queue_name(service, one.handler);
        auto const address = core::handler_destination(service, one.handler);
        all.push_back({parked_queue_name(service), parked_exchange_name, address});
        all.push_back({queue, exchange_name, address});
        for (auto const& wanted : one.bindings) all.push_back({queue, wanted.exchange, wanted.routing_key});
    }
    for (auto const& one : all) {
        amqp_queue_bind_t request{};
        request.queue = bytes(one.queue);
        request.exchange = bytes(one.exchange);
        request.routing_key = bytes(one.routing_key);
        request.nowait = 1;
        broker.send(AMQP_QUEUE_BIND_METHOD, &request, "binding a queue again");
    }
}

void declare_marker(connection& broker, std::string const& service, std::string const& database)
{
    std::array arguments{argument("x-queue-type", "quorum")};
    declare_queue(broker, marker_queue_name(service, database), {static_cast<int>(arguments.size()), arguments.data()});
    broker.release_buffers();
}

void expect_exchanges(connection& broker)
{
    expect_exchange(broker, exchange_name, made_by("NAME"));
    broker.release_buffers();
}

void expect_queues(connection& broker, std::string const& service, std::string const& database)
{
    auto const remedy = made_by(service);
    for (auto const* name : {exchange_name, parked_exchange_name}) expect_exchange(broker, name, remedy);
    for (auto const& name : {parked_queue_name(service), queue_name(service)}) expect_queue(broker, name, remedy);
    if (!database.empty()) expect_database(broker, service, database);
    broker.release_buffers();
}

}  // namespace skald::rabbitmq
