#include "raw.hpp"

#include <algorithm>
#include <stdexcept>

namespace relay_bench {
namespace {

amqp_bytes_t bytes(std::string const& text)
{
    return {text.size(), const_cast<char*>(text.data())};
}

}  // namespace

raw_connection::raw_connection(skald::rabbitmq::address const& where) : state_{amqp_new_connection()}
{
    auto const& node = where.endpoints.front();
    auto* const socket = amqp_tcp_socket_new(state_.get());
    if (amqp_socket_open(socket, node.host.c_str(), node.port) != AMQP_STATUS_OK)
        throw std::runtime_error{"no connection to the broker"};
    auto const reply = amqp_login(state_.get(), where.vhost.c_str(), 8, AMQP_DEFAULT_FRAME_SIZE, 0,
                                  AMQP_SASL_METHOD_PLAIN, where.user.c_str(), where.password.c_str());
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) throw std::runtime_error{"the broker lets nobody in"};
    amqp_channel_open(state_.get(), 1);
    check("opening a channel");
}

void raw_connection::check(char const* doing)
{
    if (amqp_get_rpc_reply(state_.get()).reply_type != AMQP_RESPONSE_NORMAL) throw std::runtime_error{doing};
}

// The tag of the next confirm; with `multiple`, which is the last of several.
std::uint64_t raw_connection::read_confirm()
{
    for (;;) {
        amqp_frame_t frame{};
        amqp_maybe_release_buffers(state_.get());
        if (amqp_simple_wait_frame(state_.get(), &frame) != AMQP_STATUS_OK)
            throw std::runtime_error{"reading a confirm"};
        if (frame.frame_type != AMQP_FRAME_METHOD) continue;
        if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD) throw std::runtime_error{"something else than a confirm"};
        auto const& ack = *static_cast<amqp_basic_ack_t const*>(frame.payload.method.decoded);
        return ack.multiple != 0 ? ack.delivery_tag : 0;
    }
}

// In order as the broker confirms them is close enough for a rate: single confirms are counted,
// `multiple` sets the count.
void raw_connection::publish(std::string const& service, std::size_t count, std::size_t window, std::string const& body)
{
    amqp_confirm_select(state_.get(), 1);
    check("asking for confirms");
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG;
    properties.delivery_mode = 2;
    std::size_t confirmed = 0;
    auto const await_one = [&] {
        auto const up_to = read_confirm();
        confirmed = up_to == 0 ? confirmed + 1 : std::max<std::size_t>(confirmed + 1, up_to);
    };
    for (std::size_t sent = 0; sent < count; ++sent) {
        while (sent - confirmed >= window) await_one();
        if (amqp_basic_publish(state_.get(), 1, amqp_cstring_bytes("skald"), bytes(service), 1, 0, &properties,
                               bytes(body)) != AMQP_STATUS_OK)
            throw std::runtime_error{"publishing"};
    }
    while (confirmed < count) await_one();
}

void raw_connection::drain(std::string const& service, std::atomic<bool> const& stop, std::atomic<std::size_t>& taken)
{
    auto const queue = "skald." + service;
    amqp_basic_consume(state_.get(), 1, bytes(queue), amqp_empty_bytes, 0, /*no_ack*/ 1, 0, amqp_empty_table);
    check("consuming");
    while (!stop) {
        amqp_envelope_t envelope{};
        timeval const longest{0, 100'000};
        amqp_maybe_release_buffers(state_.get());
        auto const reply = amqp_consume_message(state_.get(), &envelope, &longest, 0);
        if (reply.reply_type != AMQP_RESPONSE_NORMAL) continue;
        amqp_destroy_envelope(&envelope);
        ++taken;
    }
}

}  // namespace relay_bench
