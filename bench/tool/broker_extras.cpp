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

amqp_bytes_t bytes(std::string const& text)
{
    return {text.size(), const_cast<char*>(text.data())};  // the library has no const type for what it only reads
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

void broker_connection::declare_queue(char const* name, std::vector<amqp_table_entry_t> arguments)
{
    amqp_queue_declare(get(), channel, amqp_cstring_bytes(name), 0, 1, 0, 0,
                       {static_cast<int>(arguments.size()), arguments.data()});
    check("declaring a queue");
}

void broker_connection::bind_queue(std::string const& queue, char const* exchange, std::string const& routing_key)
{
    amqp_queue_bind(get(), channel, bytes(queue), amqp_cstring_bytes(exchange), bytes(routing_key), amqp_empty_table);
    check("binding a queue");
}

void broker_connection::delete_queue(char const* name)
{
    amqp_queue_delete(get(), channel, amqp_cstring_bytes(name), 0, 0);
}

}  // namespace skald_bench
