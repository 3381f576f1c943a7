#include "rig/broker.hpp"

#include <string_view>

#include <sys/time.h>

#include <fmt/format.h>

#if __has_include(<rabbitmq-c/tcp_socket.h>)
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp_tcp_socket.h>
#endif

namespace skald::rig {
namespace {

constexpr amqp_channel_t channel = 1;
constexpr timeval connect_timeout{10, 0};
constexpr timeval broker_timeout{30, 0};
constexpr int frame_max = 131'072;

amqp_bytes_t bytes(std::string_view text)
{
    amqp_bytes_t view;
    view.len = text.size();
    view.bytes = const_cast<char*>(text.data());  // the library has no const type for bytes that it only reads
    return view;
}

std::string text(amqp_bytes_t view)
{
    return {static_cast<char const*>(view.bytes), view.len};
}

std::string describe(amqp_rpc_reply_t const& reply)
{
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) return amqp_error_string2(reply.library_error);
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION) return "no answer";
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
        return text(static_cast<amqp_connection_close_t*>(reply.reply.decoded)->reply_text);
    if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
        return text(static_cast<amqp_channel_close_t*>(reply.reply.decoded)->reply_text);
    return amqp_method_name(reply.reply.id);
}

bool says_not_found(amqp_rpc_reply_t const& reply)
{
    return reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION && reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD &&
           static_cast<amqp_channel_close_t*>(reply.reply.decoded)->reply_code == AMQP_NOT_FOUND;
}

}  // namespace

broker::broker(std::string url) : connection_{amqp_new_connection()}
{
    amqp_connection_info where;
    amqp_default_connection_info(&where);
    if (amqp_parse_url(url.data(), &where) != AMQP_STATUS_OK || where.ssl != 0)
        throw broker_error("AMQP_URL is not of the form amqp://user:password@host:port/vhost");
    auto* const socket = get() != nullptr ? amqp_tcp_socket_new(get()) : nullptr;
    if (socket == nullptr) throw broker_error("no memory for a connection to RabbitMQ");
    timeval timeout = connect_timeout;
    amqp_set_rpc_timeout(get(), &broker_timeout);
    check_status(amqp_socket_open_noblock(socket, where.host, where.port, &timeout), "connecting");
    // No heartbeats: rabbitmq-c serves them only inside its calls, and this server is on the same machine.
    check(amqp_login(get(), where.vhost, 0, frame_max, 0, AMQP_SASL_METHOD_PLAIN, where.user, where.password),
          "logging in");
    open_channel();
}

void broker::closes::operator()(amqp_connection_state_t connection) const
{
    amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(connection);
}

void broker::open_channel()
{
    amqp_channel_open(get(), channel);
    check(amqp_get_rpc_reply(get()), "opening a channel");
}

std::optional<broker::queue_state> broker::look_at(std::string const& queue)
{
    amqp_maybe_release_buffers(get());
    auto const* const state = amqp_queue_declare(get(), channel, bytes(queue), 1, 0, 0, 0, amqp_empty_table);
    auto const reply = amqp_get_rpc_reply(get());
    if (says_not_found(reply)) {
        amqp_channel_close_ok_t done{};
        check_status(amqp_send_method(get(), channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &done), "closing a channel");
        open_channel();
        return std::nullopt;
    }
    check(reply, "looking at a queue");
    return queue_state{state->message_count, state->consumer_count};
}

void broker::check(amqp_rpc_reply_t const& reply, char const* doing) const
{
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        throw broker_error(fmt::format("RabbitMQ, {}: {}", doing, describe(reply)));
}

void broker::check_status(int status, char const* doing) const
{
    if (status != AMQP_STATUS_OK)
        throw broker_error(fmt::format("RabbitMQ, {}: {}", doing, amqp_error_string2(status)));
}

}  // namespace skald::rig
