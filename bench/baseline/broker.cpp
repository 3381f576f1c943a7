#include "broker.hpp"

#include <sys/time.h>

#if __has_include(<rabbitmq-c/tcp_socket.h>)
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp_tcp_socket.h>
#endif

namespace bench_baseline {
namespace {

constexpr amqp_channel_t channel = 1;
constexpr int frame_max = 131'072;

amqp_bytes_t bytes(std::string_view text)
{
    return {text.size(), const_cast<char*>(text.data())};  // the library has no const type for what it only reads
}

std::string_view view(amqp_bytes_t raw)
{
    return raw.len == 0 ? std::string_view{} : std::string_view{static_cast<char const*>(raw.bytes), raw.len};
}

timeval to_timeval(std::chrono::microseconds length)
{
    return {static_cast<time_t>(length.count() / 1'000'000), static_cast<suseconds_t>(length.count() % 1'000'000)};
}

amqp_table_entry_t text_entry(std::string_view name, std::string_view value)
{
    amqp_table_entry_t entry{};
    entry.key = bytes(name);
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = bytes(value);
    return entry;
}

amqp_table_entry_t number_entry(std::string_view name, std::int64_t value)
{
    amqp_table_entry_t entry{};
    entry.key = bytes(name);
    entry.value.kind = AMQP_FIELD_KIND_I64;
    entry.value.value.i64 = value;
    return entry;
}

message read(amqp_message_t const& raw)
{
    message m;
    m.body = view(raw.body);
    if ((raw.properties._flags & AMQP_BASIC_TYPE_FLAG) != 0) m.type = view(raw.properties.type);
    if ((raw.properties._flags & AMQP_BASIC_HEADERS_FLAG) == 0) return m;
    for (int i = 0; i < raw.properties.headers.num_entries; ++i) {
        auto const& entry = raw.properties.headers.entries[i];
        if (entry.value.kind == AMQP_FIELD_KIND_UTF8)
            m.headers.emplace_back(view(entry.key), view(entry.value.value.bytes));
    }
    return m;
}

}  // namespace

broker::broker(std::string url) : connection_{amqp_new_connection()}
{
    amqp_connection_info where;
    amqp_default_connection_info(&where);
    if (amqp_parse_url(url.data(), &where) != AMQP_STATUS_OK || where.ssl != 0)
        throw broker_error{"AMQP_URL is not of the form amqp://user:password@host:port/vhost"};
    auto* const socket = amqp_tcp_socket_new(get());
    if (socket == nullptr || amqp_socket_open(socket, where.host, where.port) != AMQP_STATUS_OK)
        throw broker_error{"RabbitMQ can't be reached"};
    check(amqp_login(get(), where.vhost, 0, frame_max, 0, AMQP_SASL_METHOD_PLAIN, where.user, where.password),
          "logging in");
    amqp_channel_open(get(), channel);
    check("opening a channel");
}

void broker::declare_queue(std::string const& name, std::vector<amqp_table_entry_t> arguments, char const* exchange,
                           std::string const& service)
{
    amqp_exchange_declare(get(), channel, amqp_cstring_bytes(exchange), amqp_cstring_bytes("direct"), 0, 1, 0, 0,
                          amqp_empty_table);
    check("declaring an exchange");
    amqp_table_t const table{static_cast<int>(arguments.size()), arguments.data()};
    amqp_queue_declare(get(), channel, bytes(name), 0, 1, 0, 0, table);
    check("declaring a queue");
    amqp_queue_bind(get(), channel, bytes(name), amqp_cstring_bytes(exchange), bytes(service), amqp_empty_table);
    check("binding a queue");
}

void broker::declare(std::string const& service)
{
    auto const name = "skald." + service;
    declare_queue(name + ".parked", {text_entry("x-queue-type", "quorum")}, "skald.parked", service);
    declare_queue(name,
                  {text_entry("x-queue-type", "quorum"), number_entry("x-delivery-limit", 50),
                   text_entry("x-dead-letter-exchange", "skald.parked"),
                   text_entry("x-dead-letter-routing-key", service),
                   text_entry("x-dead-letter-strategy", "at-least-once"), text_entry("x-overflow", "reject-publish")},
                  "skald", service);
}

void broker::consume(std::string const& service, std::uint16_t prefetch)
{
    amqp_basic_qos(get(), channel, 0, prefetch, 0);
    check("setting the prefetch");
    amqp_basic_consume(get(), channel, bytes("skald." + service), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    check("consuming");
}

std::optional<broker::delivery> broker::next(std::chrono::milliseconds wait)
{
    auto const timeout = to_timeval(wait);
    amqp_maybe_release_buffers(get());
    amqp_envelope_t envelope;
    auto const reply = amqp_consume_message(get(), &envelope, &timeout, 0);
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && reply.library_error == AMQP_STATUS_TIMEOUT)
        return std::nullopt;
    check(reply, "taking a delivery");
    delivery taken{read(envelope.message), envelope.delivery_tag};
    amqp_destroy_envelope(&envelope);
    return taken;
}

void broker::ack_up_to(std::uint64_t tag)
{
    check_status(amqp_basic_ack(get(), channel, tag, 1), "acknowledging");
}

void broker::expect_confirms()
{
    amqp_confirm_select(get(), channel);
    check("asking for publisher confirms");
}

void broker::publish(message const& m)
{
    std::vector<amqp_table_entry_t> entries;
    for (auto const& [name, value] : m.headers) entries.push_back(text_entry(name, value));
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG | AMQP_BASIC_HEADERS_FLAG |
                        AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG;
    properties.delivery_mode = 2;
    properties.correlation_id = bytes("0123456789");
    properties.headers = {static_cast<int>(entries.size()), entries.data()};
    properties.message_id = bytes(m.id);
    properties.type = bytes(m.type);
    properties.content_type = amqp_cstring_bytes("application/json");
    check_status(amqp_basic_publish(get(), channel, amqp_cstring_bytes("skald"), bytes(m.destination), /*mandatory*/ 1,
                                    0, &properties, bytes(m.body)),
                 "publishing");
}

std::optional<broker::confirmed> broker::next_confirm(std::chrono::microseconds wait)
{
    auto const timeout = to_timeval(wait);
    amqp_maybe_release_buffers(get());
    amqp_frame_t frame;
    auto const status = amqp_simple_wait_frame_noblock(get(), &frame, &timeout);
    if (status == AMQP_STATUS_TIMEOUT) return std::nullopt;
    check_status(status, "waiting for confirms");
    if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
        throw broker_error{"RabbitMQ did not confirm a message"};
    auto const* const ack = static_cast<amqp_basic_ack_t*>(frame.payload.method.decoded);
    return confirmed{ack->delivery_tag, ack->multiple != 0};
}

void broker::check(char const* doing) const
{
    check(amqp_get_rpc_reply(get()), doing);
}

void broker::check(amqp_rpc_reply_t const& reply, char const* doing) const
{
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
    char const* why = "it closed the channel or the connection";
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) why = amqp_error_string2(reply.library_error);
    throw broker_error{std::string{"RabbitMQ, "} + doing + ": " + why};
}

void broker::check_status(int status, char const* doing) const
{
    if (status != AMQP_STATUS_OK)
        throw broker_error{std::string{"RabbitMQ, "} + doing + ": " + amqp_error_string2(status)};
}

}  // namespace bench_baseline
