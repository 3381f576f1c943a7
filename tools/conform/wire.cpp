#include "conform/wire.hpp"

#include "conform/plan.hpp"
#include "rabbitmq/properties.hpp"
#include "rabbitmq/topology.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include <poll.h>

namespace skald::conform {
namespace {

using namespace std::chrono_literals;
using rabbitmq::argument;
using rabbitmq::bytes;
using rabbitmq::the_channel;

constexpr auto broker_patience = 30s;  // for any answer of the broker's

rabbitmq::connection_settings settings_for(std::string const& url, char const* role)
{
    rabbitmq::connection_settings made{rabbitmq::parse_url(url), fmt::format("skald-conform/{}", role)};
    made.connect_timeout = broker_patience;  // a trial must not end for a machine that is busy
    return made;
}

/// The same with a header that is no text.
class with_header
{
public:
    with_header(amqp_basic_properties_t const& original, amqp_table_entry_t header) : properties_{original}
    {
        for (int i = 0; i < original.headers.num_entries; ++i)
            if (rabbitmq::view(original.headers.entries[i].key) != rabbitmq::view(header.key))
                headers_.push_back(original.headers.entries[i]);
        headers_.push_back(header);
        properties_.headers = {static_cast<int>(headers_.size()), headers_.data()};
    }
    with_header(with_header const&) = delete;
    with_header& operator=(with_header const&) = delete;

    amqp_basic_properties_t const* get() const { return &properties_; }

private:
    amqp_basic_properties_t properties_;
    std::vector<amqp_table_entry_t> headers_;
};

}  // namespace

wire::wire(std::string const& url, std::string service)
    : service_{std::move(service)}, sends_{settings_for(url, "sends"), interrupter_},
      reads_{settings_for(url, "reads"), interrupter_}, looks_{settings_for(url, "looks"), interrupter_}
{
    amqp_confirm_select(sends_.raw(), the_channel);
    sends_.check_last("asking for confirms");
    reads_.expect_larger_frames();
    auto const* const made = amqp_queue_declare(reads_.raw(), the_channel, amqp_empty_bytes, /*passive*/ 0,
                                                /*durable*/ 0, /*exclusive*/ 1, /*auto_delete*/ 1, amqp_empty_table);
    reads_.check_last("declaring a queue for the home");
    std::string const queue{rabbitmq::view(made->queue)};
    for (auto const* const key : {home, events}) {
        amqp_queue_bind(reads_.raw(), the_channel, bytes(queue), amqp_cstring_bytes(rabbitmq::exchange_name),
                        amqp_cstring_bytes(key), amqp_empty_table);
        reads_.check_last("binding the queue of the home");
    }
    amqp_basic_consume(reads_.raw(), the_channel, bytes(queue), amqp_empty_bytes, /*no_local*/ 0, /*no_ack*/ 1,
                       /*exclusive*/ 1, amqp_empty_table);
    reads_.check_last("consuming what is sent to the home");
}

void wire::send(core::message const& message, way by, wire_form form)
{
    rabbitmq::encoded_properties const properties{message, "conform"};
    auto inner = argument("name", home);
    amqp_table_entry_t table{};
    table.key = amqp_cstring_bytes("x-saga-home");
    table.value.kind = AMQP_FIELD_KIND_TABLE;
    table.value.value.table = {1, &inner};
    with_header const other{*properties.get(),
                            form == wire_form::home_is_table ? table : argument("x-attempt", std::int64_t{1})};
    auto const exchange = by == way::queue    ? amqp_empty_bytes
                          : by == way::parked ? amqp_cstring_bytes(rabbitmq::parked_exchange_name)
                                              : amqp_cstring_bytes(rabbitmq::exchange_name);
    auto const key = by == way::queue ? rabbitmq::queue_name(service_) : message.destination;
    sends_.check(amqp_basic_publish(sends_.raw(), the_channel, exchange, bytes(key), /*mandatory*/ 0, /*immediate*/ 0,
                                    form == wire_form::text ? properties.get() : other.get(), bytes(message.body)),
                 "sending a message");
    await_confirm();
}

void wire::await_confirm()
{
    auto const until = std::chrono::steady_clock::now() + broker_patience;
    while (std::chrono::steady_clock::now() < until) {
        auto const frame = sends_.read(100ms);
        bool const is_confirmed =
            frame && frame->frame_type == AMQP_FRAME_METHOD && frame->payload.method.id == AMQP_BASIC_ACK_METHOD;
        sends_.release_buffers();
        if (is_confirmed) return;
    }
    throw rabbitmq::connection_lost{fmt::format("the broker has not confirmed a message to {} for 30 s", service_)};
}

std::optional<core::message> wire::next()
{
    while (auto const frame = reads_.read(0ms)) {
        if (frame->frame_type != AMQP_FRAME_METHOD || frame->payload.method.id != AMQP_BASIC_DELIVER_METHOD) continue;
        amqp_message_t raw{};
        reads_.check(amqp_read_message(reads_.raw(), the_channel, &raw, 0), "reading a message");
        auto made = rabbitmq::decode_properties(raw.properties).message;
        made.body = rabbitmq::view(raw.body);
        amqp_destroy_message(&raw);
        reads_.release_buffers();
        return made;
    }
    return std::nullopt;
}

void wire::wait(std::chrono::milliseconds longest)
{
    pollfd socket{reads_.socket(), POLLIN, 0};
    static_cast<void>(::poll(&socket, 1, static_cast<int>(longest.count())));
    while (sends_.read(0ms)) sends_.release_buffers();  // serves its heartbeats
    while (looks_.read(0ms)) looks_.release_buffers();
}

wire::depth wire::look()
{
    auto const* const there =
        amqp_queue_declare(looks_.raw(), the_channel, bytes(rabbitmq::queue_name(service_)), /*passive*/ 1,
                           /*durable*/ 1, /*exclusive*/ 0, /*auto_delete*/ 0, amqp_empty_table);
    looks_.check_last("looking at the participant's queue");
    depth const seen{there->message_count, there->consumer_count};
    looks_.release_buffers();
    return seen;
}

void wire::purge()
{
    for (auto const& queue : {rabbitmq::queue_name(service_), rabbitmq::parked_queue_name(service_)}) {
        amqp_queue_purge(looks_.raw(), the_channel, bytes(queue));
        looks_.check_last("emptying the participant's queues");
        looks_.release_buffers();
    }
}

}  // namespace skald::conform
