#include "broker_extras.hpp"

#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#if __has_include(<rabbitmq-c/tcp_socket.h>)
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp_tcp_socket.h>
#endif

namespace skald_bench {
namespace {

constexpr amqp_channel_t channel = 1;
constexpr int frame_max = 131'072;
constexpr char const* copies = "skald.bench.copies";
constexpr char const* back_again = "skald.bench.back";
constexpr std::int64_t again_after_ms = 500;
constexpr char const* bench_services[]{"bench-orders", "bench-payments", "bench-shipping"};

amqp_bytes_t bytes(std::string const& text)
{
    return {text.size(), const_cast<char*>(text.data())};  // the library has no type for what it only reads
}

amqp_table_entry_t text_entry(char const* name, char const* value)
{
    amqp_table_entry_t entry{};
    entry.key = amqp_cstring_bytes(name);
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = amqp_cstring_bytes(value);
    return entry;
}

amqp_table_entry_t number_entry(char const* name, std::int64_t value)
{
    amqp_table_entry_t entry{};
    entry.key = amqp_cstring_bytes(name);
    entry.value.kind = AMQP_FIELD_KIND_I64;
    entry.value.value.i64 = value;
    return entry;
}

amqp_connection_info parse(std::string& url)
{
    amqp_connection_info where;
    amqp_default_connection_info(&where);
    if (amqp_parse_url(url.data(), &where) != AMQP_STATUS_OK || where.ssl != 0)
        throw std::runtime_error{"AMQP_URL is not of the form amqp://user:password@host:port/vhost"};
    return where;
}

}  // namespace

int port_of(std::string const& broker_url)
{
    auto copy = broker_url;
    return parse(copy).port;
}

std::string version_of_broker(std::string const& broker_url)
{
    return broker_connection{broker_url}.version();
}

broker_connection::broker_connection(std::string url) : connection_{amqp_new_connection()}
{
    auto const where = parse(url);
    auto* const socket = amqp_tcp_socket_new(get());
    if (socket == nullptr || amqp_socket_open(socket, where.host, where.port) != AMQP_STATUS_OK)
        throw std::runtime_error{
            fmt::format("RabbitMQ can't be reached at {}:{}: is it running?", where.host, where.port)};
    auto const reply =
        amqp_login(get(), where.vhost, 0, frame_max, 0, AMQP_SASL_METHOD_PLAIN, where.user, where.password);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) throw std::runtime_error{"RabbitMQ refuses the login of AMQP_URL"};
    amqp_channel_open(get(), channel);
    check("opening a channel");
}

void broker_connection::check(char const* doing) const
{
    if (amqp_get_rpc_reply(get()).reply_type != AMQP_RESPONSE_NORMAL)
        throw std::runtime_error{fmt::format("RabbitMQ did not do it: {}", doing)};
}

std::string broker_connection::version() const
{
    auto const* const properties = amqp_get_server_properties(get());
    for (int i = 0; i < properties->num_entries; ++i) {
        auto const& entry = properties->entries[i];
        if (entry.key.len == 7 && std::memcmp(entry.key.bytes, "version", 7) == 0)
            return {static_cast<char const*>(entry.value.value.bytes.bytes), entry.value.value.bytes.len};
    }
    return "unknown";
}

void broker_connection::declare_exchange(char const* name, char const* type)
{
    amqp_exchange_declare(get(), channel, amqp_cstring_bytes(name), amqp_cstring_bytes(type), 0, 1, 0, 0,
                          amqp_empty_table);
    check("declaring an exchange");
}

void broker_connection::bind_exchange(char const* source, std::string const& routing_key, char const* destination)
{
    amqp_exchange_bind(get(), channel, amqp_cstring_bytes(destination), amqp_cstring_bytes(source), bytes(routing_key),
                       amqp_empty_table);
    check("binding an exchange to another");
}

void broker_connection::declare_queue(char const* name, bool exclusive, std::vector<amqp_table_entry_t> arguments)
{
    amqp_queue_declare(get(), channel, amqp_cstring_bytes(name), 0, exclusive ? 0 : 1, exclusive ? 1 : 0, 0,
                       {static_cast<int>(arguments.size()), arguments.data()});
    check("declaring a queue");
}

void broker_connection::bind_queue(std::string const& queue, char const* exchange, std::string const& routing_key,
                                   std::vector<amqp_table_entry_t> arguments)
{
    amqp_queue_bind(get(), channel, bytes(queue), amqp_cstring_bytes(exchange), bytes(routing_key),
                    {static_cast<int>(arguments.size()), arguments.data()});
    check("binding a queue");
}

std::uint32_t broker_connection::count(char const* queue)
{
    amqp_maybe_release_buffers(get());
    auto const* const state =
        amqp_queue_declare(get(), channel, amqp_cstring_bytes(queue), 1, 0, 0, 0, amqp_empty_table);
    check("looking at a queue");
    return state->message_count;
}

void broker_connection::purge(std::string const& queue)
{
    amqp_queue_purge(get(), channel, bytes(queue));
    check("emptying a queue");
}

void broker_connection::delete_queue(char const* name)
{
    amqp_queue_delete(get(), channel, amqp_cstring_bytes(name), 0, 0);
}

void broker_connection::delete_exchange(char const* name)
{
    amqp_exchange_delete(get(), channel, amqp_cstring_bytes(name), 0);
}

every_message_again::every_message_again(std::string const& broker_url) : broker_{broker_url}
{
    broker_.declare_exchange("skald", "direct");
    broker_.declare_exchange(copies, "headers");
    broker_.declare_exchange(back_again, "direct");
    broker_.declare_queue(
        queue, true, {number_entry("x-message-ttl", again_after_ms), text_entry("x-dead-letter-exchange", back_again)});
    // Not "all", which leaves out headers whose names begin with x-, and so would match every message.
    broker_.bind_queue(queue, copies, "", {text_entry("x-match", "all-with-x"), text_entry("x-saga-scope", scope)});
    for (std::string const service : bench_services) {
        broker_.bind_queue("skald." + service, back_again, service);
        broker_.bind_exchange("skald", service, copies);
    }
}

every_message_again::~every_message_again()
{
    broker_.delete_exchange(copies);
    broker_.delete_queue(queue);
    broker_.delete_exchange(back_again);
}

message_sink::message_sink(std::string const& broker_url) : broker_{broker_url}
{
    broker_.declare_exchange("skald", "direct");
    broker_.declare_queue(queue, false, {text_entry("x-queue-type", "quorum"), number_entry("x-max-length", 1'000)});
    broker_.bind_queue(queue, "skald", "bench-sink");
}

message_sink::~message_sink()
{
    broker_.delete_queue(queue);
}

}  // namespace skald_bench
