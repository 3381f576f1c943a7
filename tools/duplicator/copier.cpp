#include "duplicator/copier.hpp"

#include "rabbitmq/topology.hpp"

#include <fmt/format.h>

#include <utility>

namespace skald::tools {
namespace {

using rabbitmq::bytes;
using rabbitmq::the_channel;
using rabbitmq::view;

[[noreturn]] void throw_missing(std::string const& queue)
{
    throw queue_missing{
        fmt::format("the queue {} is not there: start its service once, which declares it. Without it, what is "
                    "sent to that service would count as delivered although nobody has it but the duplicator",
                    queue)};
}

/// A message's properties, without those that make the broker refuse it from this user or send it elsewhere too.
class properties_again
{
public:
    explicit properties_again(amqp_basic_properties_t const& original) : properties_{original}
    {
        properties_._flags &= ~static_cast<amqp_flags_t>(AMQP_BASIC_USER_ID_FLAG);
        for (int i = 0; i < original.headers.num_entries; ++i)
            if (auto const name = view(original.headers.entries[i].key); name != "CC" && name != "BCC")
                headers_.push_back(original.headers.entries[i]);
        properties_.headers = {static_cast<int>(headers_.size()), headers_.data()};
    }
    properties_again(properties_again const&) = delete;
    properties_again& operator=(properties_again const&) = delete;

    amqp_basic_properties_t const* get() const { return &properties_; }

private:
    amqp_basic_properties_t properties_;
    std::vector<amqp_table_entry_t> headers_;
};

}  // namespace

copier::copier(rabbitmq::connection_settings const& settings, sockets::socket_interrupter& interrupter)
    : broker_{settings, interrupter}
{
    amqp_confirm_select(broker_.raw(), the_channel);
    broker_.check_last("asking for confirms");
}

void copier::send(captured_ptr message)
{
    auto const queue = rabbitmq::queue_name(message->service());
    auto const& original = message->message();
    properties_again const properties{original.properties};
    in_flight_.emplace(++sent_, message);
    broker_.check(amqp_basic_publish(broker_.raw(), the_channel, amqp_empty_bytes, bytes(queue), /*mandatory*/ 1,
                                     /*immediate*/ 0, properties.get(), original.body),
                  "publishing a duplicate");
}

std::size_t copier::take_replies()
{
    confirmed_ = 0;
    while (auto const frame = broker_.read(std::chrono::milliseconds{0})) {
        if (rabbitmq::content_reader::is_part(*frame)) {
            if (auto const returned = reader_.feed(*frame))
                throw queue_missing{"a duplicate came back: " + returned->reason};
        }
        else if (frame->frame_type == AMQP_FRAME_METHOD) {
            handle(frame->payload.method);
        }
        broker_.release_buffers();
    }
    return confirmed_;
}

void copier::handle(amqp_method_t const& method)
{
    switch (method.id) {
    case AMQP_BASIC_ACK_METHOD: {
        auto const& ack = *static_cast<amqp_basic_ack_t const*>(method.decoded);
        return answered(ack.delivery_tag, ack.multiple != 0, true);
    }
    case AMQP_BASIC_NACK_METHOD: {
        auto const& nack = *static_cast<amqp_basic_nack_t const*>(method.decoded);
        return answered(nack.delivery_tag, nack.multiple != 0, false);
    }
    case AMQP_CONNECTION_BLOCKED_METHOD: is_blocked_ = true; return;
    case AMQP_CONNECTION_UNBLOCKED_METHOD: is_blocked_ = false; return;
    default: return;  // nothing else concerns a publisher
    }
}

void copier::answered(std::uint64_t tag, bool multiple, bool positive)
{
    auto const end = in_flight_.upper_bound(tag);
    for (auto it = multiple ? in_flight_.begin() : in_flight_.find(tag); it != end && it != in_flight_.end();) {
        if (positive) ++confirmed_;
        else refused_.push_back(std::move(it->second));
        it = in_flight_.erase(it);
    }
}

void copier::check_queue(std::string const& service)
try {
    amqp_queue_declare(broker_.raw(), the_channel, bytes(rabbitmq::queue_name(service)), /*passive*/ 1, /*durable*/ 1,
                       /*exclusive*/ 0, /*auto_delete*/ 0, amqp_empty_table);
    broker_.check_last("looking for a queue");
}
catch (rabbitmq::refused_by_broker const& refusal) {
    if (refusal.code() != AMQP_NOT_FOUND) throw;
    throw_missing(rabbitmq::queue_name(service));
}

std::vector<captured_ptr> copier::take_unconfirmed()
{
    std::vector<captured_ptr> left = take_refused();
    for (auto& [tag, message] : std::exchange(in_flight_, {})) left.push_back(std::move(message));
    return left;
}

void copier::close() noexcept
{
    broker_.close();
}

}  // namespace skald::tools
