#include "rabbitmq/administration.hpp"

#include "core/foreign_message.hpp"
#include "rabbitmq/connection.hpp"
#include "rabbitmq/publish_session.hpp"
#include "rabbitmq/topology.hpp"
#include "sockets/watchdog.hpp"

#include <array>

namespace skald::rabbitmq {
namespace {

constexpr std::chrono::seconds answer_within{3};

// A new connection for each query: the broker closes the channel to say that something does not exist.
template <class Question>
auto ask(address const& where, Question question)
{
    sockets::socket_interrupter interrupter;
    sockets::watchdog dog{interrupter};
    sockets::watched const guard{dog, sockets::watchdog::clock::now() + std::chrono::seconds{15}};
    connection broker{{where, "skald/doctor"}, interrupter};
    return question(broker);
}

template <class Question>
bool exists(address const& where, Question question)
try {
    ask(where, [&](connection& broker) {
        question(broker);
        return true;
    });
    return true;
}
catch (refused_by_broker const& refusal) {
    if (refusal.code() != AMQP_NOT_FOUND) throw;
    return false;
}

std::string text_of(amqp_table_t const& table, std::string_view name)
{
    for (int i = 0; i < table.num_entries; ++i) {
        auto const& entry = table.entries[i];
        if (view(entry.key) == name && entry.value.kind == AMQP_FIELD_KIND_UTF8)
            return std::string{view(entry.value.value.bytes)};
    }
    return {};
}

std::string product_of(connection& broker)
{
    auto const* const properties = amqp_get_server_properties(broker.raw());
    return properties == nullptr ? "" : text_of(*properties, "product") + ' ' + text_of(*properties, "version");
}

bool has_exchange(address const& where, std::string const& name)
{
    return exists(where, [&](connection& broker) {
        amqp_exchange_declare(broker.raw(), the_channel, bytes(name), amqp_cstring_bytes("direct"),
                              /*passive*/ 1, /*durable*/ 1, /*auto_delete*/ 0, /*internal*/ 0, amqp_empty_table);
        broker.check_last("looking for an exchange");
    });
}

std::optional<queue_depth> depth_of(address const& where, std::string const& queue)
{
    queue_depth depth;
    bool const there = exists(where, [&](connection& broker) {
        auto const* const found =
            amqp_queue_declare(broker.raw(), the_channel, bytes(queue), /*passive*/ 1, /*durable*/ 1,
                               /*exclusive*/ 0, /*auto_delete*/ 0, amqp_empty_table);
        broker.check_last("looking for a queue");
        depth = {found->message_count, found->consumer_count};
    });
    return there ? std::optional{depth} : std::nullopt;
}

// Why this user may not consume a queue; empty if it may. A broker checks the permission first and the arguments next:
// one of them is wrong on purpose, so that no consumer is ever added and no message delivered.
std::string find_consume_refusal(address const& where, std::string const& queue)
try {
    ask(where, [&](connection& broker) {
        auto wrong = argument("x-priority", "not a number");
        amqp_basic_consume(broker.raw(), the_channel, bytes(queue), amqp_empty_bytes, /*no_local*/ 0, /*no_ack*/ 0,
                           /*exclusive*/ 0, {1, &wrong});
        broker.check_last(("consuming `" + queue + "`").c_str());
        return true;
    });
    return {};
}
catch (refused_by_broker const& refusal) {
    return refusal.code() == AMQP_PRECONDITION_FAILED ? std::string{} : refusal.what();
}

// Why the broker takes nothing that is sent there: this user may not, or it is short of memory or disk, which it
// reports only to publishers. What is sent here has no queue, so it goes nowhere.
std::string find_refusal(address const& where, std::string const& exchange)
try {
    sockets::socket_interrupter interrupter;
    sockets::watchdog dog{interrupter};
    sockets::watched const guard{dog, sockets::watchdog::clock::now() + std::chrono::seconds{15}};
    publish_session session{{where, "skald/doctor"}, interrupter, /*declares*/ false};
    core::message probe;
    probe.destination = probe.id = probe.type = "skald.doctor";  // no service can have that name, and no queue of one
    probe.headers.emplace_back(core::header::exchange, exchange);
    session.send(0, probe);
    auto const until = std::chrono::steady_clock::now() + answer_within;
    while (session.blocked().empty() && session.window().outstanding() > 0) {
        if (std::chrono::steady_clock::now() > until) return "it does not confirm a message";
        session.read(std::chrono::milliseconds{100});
    }
    return session.blocked();
}
catch (refused_by_broker const& refusal) {
    return refusal.what();
}

// What a user who declares finds; for another one it is why the broker refused.
template <class Check>
void check_declared(address const& where, std::string& mismatch, std::string& may_not_declare, Check check)
try {
    ask(where, [&](connection& broker) {
        check(broker);
        return true;
    });
}
catch (topology_mismatch const& found) {
    mismatch = found.what();
}
catch (refused_by_broker const& refusal) {
    if (refusal.code() != AMQP_ACCESS_REFUSED) throw;
    may_not_declare = refusal.what();
}

void inspect_handler(address const& where, std::string const& service, ports::handler_queue const& one, bool declares,
                     handler_inspection& seen)
{
    seen.depth = depth_of(where, seen.queue);
    for (auto const& to : one.bindings)
        if (to.exchange != exchange_name && !has_exchange(where, to.exchange))
            seen.missing_exchanges.push_back(to.exchange);
    if (!seen.depth) return;
    seen.may_not_consume = find_consume_refusal(where, seen.queue);
    if (!declares || !seen.may_not_consume.empty() || !seen.missing_exchanges.empty()) return;
    check_declared(where, seen.mismatch, seen.may_not_declare,
                   [&](connection& broker) { check_handler(broker, service, one); });
}

template <class Look>
void look(inspection& seen, std::string at, Look what)
try {
    what();
}
catch (connection_lost const& error) {
    seen.not_examined.push_back({std::move(at), error.what()});
}

void inspect_queues(address const& where, std::string const& service, std::string const& database, bool declares,
                    inspection& seen)
{
    look(seen, "queue", [&] {
        seen.queue = depth_of(where, queue_name(service));
        seen.parked = depth_of(where, parked_queue_name(service));
    });
    if (!seen.queue || !seen.parked) return;
    look(seen, "consuming", [&] {
        for (auto const& queue : {queue_name(service), parked_queue_name(service)})
            if (seen.may_not_consume.empty()) seen.may_not_consume = find_consume_refusal(where, queue);
    });
    // All of it exists: declaring it again changes nothing, and reveals what differs. Binding again would change
    // something. Who may not consume may not declare, and who does not declare sees less, without any right.
    if (seen.missing_exchange || (declares && !seen.may_not_consume.empty())) return;
    look(seen, "declaring", [&] {
        auto const is_bound = depth_of(where, database_queue_name(service)).has_value();
        check_declared(where, seen.mismatch, seen.may_not_declare, [&](connection& broker) {
            if (declares) check_queues(broker, service, is_bound ? database : "");
            else expect_queues(broker, service, database);
        });
    });
}

}  // namespace

inspection inspect_all(std::string const& url, std::string const& service, std::string const& database, bool declares,
                       std::vector<ports::handler_queue> const& handlers)
{
    auto const where = parse_url(url);
    inspection seen;
    seen.broker = ask(where, product_of);
    look(seen, "exchange", [&] {
        for (auto const* name : {exchange_name, parked_exchange_name})
            if (!has_exchange(where, name)) seen.missing_exchange = name;
    });
    if (!seen.missing_exchange)
        look(seen, "publishing", [&] { seen.takes_nothing = find_refusal(where, exchange_name); });
    if (service.empty()) return seen;

    for (auto const& one : handlers) {
        auto& handler = seen.handlers.emplace_back();
        handler.queue = handler_queue_name(service, one.handler);
        look(seen, "handler " + one.handler, [&] { inspect_handler(where, service, one, declares, handler); });
    }
    if (!handlers.empty() && seen.takes_nothing.empty() && !seen.missing_exchange)
        look(seen, "replies", [&] { seen.may_not_reply = find_refusal(where, ""); });
    inspect_queues(where, service, database, declares, seen);
    return seen;
}

inspection inspect(std::string const& url, std::string const& service, std::string const& database, bool declares)
{
    auto seen = inspect_all(url, service, database, declares, {});
    if (!seen.not_examined.empty()) throw connection_lost{seen.not_examined.front().why};
    if (!seen.may_not_declare.empty()) throw connection_lost{seen.may_not_declare};
    return seen;
}

std::optional<queue_depth> depth_of_service(std::string const& url, std::string const& service)
{
    return depth_of(parse_url(url), queue_name(service));
}

void provision(std::string const& url, std::string const& service, std::string const& database,
               std::vector<ports::handler_queue> const& handlers)
{
    check_service_name(service);
    auto const where = parse_url(url);
    sockets::socket_interrupter interrupter;
    sockets::watchdog dog{interrupter};
    sockets::watched const guard{dog, sockets::watchdog::clock::now() + std::chrono::seconds{30}};
    connection broker{{where, "skald/declare"}, interrupter};
    // The queue of the database first: if the messages belong to another one, nothing is created for this one.
    declare_queues(broker, service, database);
    declare_marker(broker, service, database);
    for (auto const& one : handlers) declare_handler(broker, service, one);
    broker.close();
}

}  // namespace skald::rabbitmq
