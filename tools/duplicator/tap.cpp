#include "duplicator/tap.hpp"

#include "rabbitmq/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

namespace skald::tools {
namespace {

using rabbitmq::argument;
using rabbitmq::bytes;
using rabbitmq::the_channel;
using rabbitmq::view;

constexpr std::int64_t messages_max = 100'000;
constexpr std::int64_t bytes_max = 64 * 1024 * 1024;
// No service's queue can have this name: theirs has no second dot.
std::string new_queue_name()
{
    std::random_device random;
    return fmt::format("skald.duplicate.{:08x}{:08x}", random(), random());
}

}  // namespace

tap::tap(rabbitmq::connection_settings const& settings, sockets::socket_interrupter& interrupter,
         std::vector<std::string> services)
    : services_{std::move(services)}, queue_{new_queue_name()}, broker_{settings, interrupter}
{
    broker_.expect_larger_frames();
    declare();
    amqp_basic_consume(broker_.raw(), the_channel, bytes(queue_), amqp_empty_bytes, /*no_local*/ 0, /*no_ack*/ 1,
                       /*exclusive*/ 1, amqp_empty_table);
    broker_.check_last("consuming what is sent to the services");
}

void tap::declare()
{
    // The type is explicit because a virtual host may have another default, and so is the overflow, because
    // `reject-publish` would refuse the services' messages while this queue is full.
    std::array arguments{argument("x-queue-type", "classic"), argument("x-overflow", "drop-head"),
                         argument("x-max-length", messages_max), argument("x-max-length-bytes", bytes_max)};
    amqp_queue_declare(broker_.raw(), the_channel, bytes(queue_), /*passive*/ 0, /*durable*/ 0, /*exclusive*/ 1,
                       /*auto_delete*/ 1, {static_cast<int>(arguments.size()), arguments.data()});
    broker_.check_last("declaring a queue for what is sent to the services");
    for (auto const& service : services_) {
        amqp_queue_bind(broker_.raw(), the_channel, bytes(queue_), amqp_cstring_bytes(rabbitmq::exchange_name),
                        bytes(service), amqp_empty_table);
        broker_.check_last("binding a queue to what is sent to the services");
    }
    broker_.release_buffers();
}

captured_ptr tap::next()
{
    while (auto const frame = broker_.read(std::chrono::milliseconds{0})) {
        if (frame->frame_type != AMQP_FRAME_METHOD) continue;
        auto const& method = frame->payload.method;
        if (method.id == AMQP_BASIC_CANCEL_METHOD)
            throw rabbitmq::connection_lost{"the broker has deleted the queue " + queue_};
        if (method.id != AMQP_BASIC_DELIVER_METHOD) continue;
        if (auto taken = read_message(*static_cast<amqp_basic_deliver_t const*>(method.decoded))) return taken;
    }
    return nullptr;
}

/// Nothing for a message that arrived through another of its routing keys (`CC`): it is not known for which of the
/// services it was meant.
captured_ptr tap::read_message(amqp_basic_deliver_t const& begun)
{
    std::string service{view(begun.routing_key)};
    amqp_message_t message{};
    broker_.check(amqp_read_message(broker_.raw(), the_channel, &message, 0), "reading a message");
    auto taken = std::make_shared<captured const>(std::move(service), message);
    broker_.release_buffers();
    bool const is_known = std::ranges::find(services_, taken->service()) != services_.end();
    return is_known ? taken : nullptr;
}

void tap::close()
{
    amqp_queue_delete(broker_.raw(), the_channel, bytes(queue_), /*if_unused*/ 0, /*if_empty*/ 0);
    broker_.check_last("deleting the queue for what was sent to the services");
    broker_.close();
}

}  // namespace skald::tools
