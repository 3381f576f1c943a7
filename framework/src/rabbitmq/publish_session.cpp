#include "rabbitmq/publish_session.hpp"

#include "core/failpoint.hpp"
#include "core/foreign_message.hpp"
#include "rabbitmq/properties.hpp"
#include "rabbitmq/topology.hpp"

#include <charconv>
#include <string>
#include <string_view>

namespace skald::rabbitmq {
namespace {

// Names a consumer and no queue, to the default exchange: it gets the message, and yet the broker returns what was sent
// there as mandatory (3.10 does). So it isn't; where the consumer has gone, nobody is told.
bool is_direct_reply(std::string_view exchange, std::string_view destination)
{
    return exchange.empty() && destination.starts_with("amq.rabbitmq.reply-to.");
}

}  // namespace

std::string exchange_of(core::message const& message)
{
    return std::string{core::find_header(message.headers, core::header::exchange).value_or(exchange_name)};
}

publish_session::publish_session(connection_settings const& settings, sockets::socket_interrupter& interrupter,
                                 bool declares)
    : broker_{settings, interrupter}
{
    auto const prepare = declares ? declare_exchanges : expect_exchanges;
    prepare(broker_);
    amqp_confirm_select(broker_.raw(), the_channel);
    broker_.check_last("asking for confirms");
}

void publish_session::send(std::int64_t row, core::message const& message)
{
    // The answers will carry the tag; a return carries only what the message carried, so the message carries its tag.
    auto const tag = std::to_string(window_.next_tag());
    encoded_properties const properties{message, tag};
    auto const exchange = exchange_of(message);
    window_.sent(row, exchange);
    amqp_boolean_t const mandatory = is_direct_reply(exchange, message.destination) ? 0 : 1;
    auto const status = amqp_basic_publish(broker_.raw(), the_channel, bytes(exchange), bytes(message.destination),
                                           mandatory, /*immediate*/ 0, properties.get(), bytes(message.body));
    // After a failure, part of a frame may be on the wire: the connection is useless, whatever the failure was.
    broker_.check(status, "publishing");
}

bool publish_session::read(std::chrono::milliseconds wait)
{
    auto const frame = broker_.read(wait);
    if (!frame) return false;
    if (content_reader::is_part(*frame)) {
        if (auto const returned = reader_.feed(*frame)) handle_return(*returned);
    }
    else if (frame->frame_type == AMQP_FRAME_METHOD) {
        handle(frame->payload.method);
    }
    broker_.release_buffers();
    return true;
}

void publish_session::drain()
{
    SKALD_FAILPOINT_SOCKET(publisher, broker_.socket());
    while (read(std::chrono::milliseconds{0})) {}
}

void publish_session::handle(amqp_method_t const& method)
{
    switch (method.id) {
    case AMQP_BASIC_ACK_METHOD: {
        auto const& ack = *static_cast<amqp_basic_ack_t const*>(method.decoded);
        window_.acked(ack.delivery_tag, ack.multiple != 0);
        break;
    }
    case AMQP_BASIC_NACK_METHOD: {
        auto const& nack = *static_cast<amqp_basic_nack_t const*>(method.decoded);
        window_.nacked(nack.delivery_tag, nack.multiple != 0);
        break;
    }
    case AMQP_CONNECTION_BLOCKED_METHOD:
        blocked_ = view(static_cast<amqp_connection_blocked_t const*>(method.decoded)->reason);
        if (blocked_.empty()) blocked_ = "no reason given";
        break;
    case AMQP_CONNECTION_UNBLOCKED_METHOD: blocked_.clear(); break;
    default: break;  // nothing else concerns a publisher
    }
}

void publish_session::handle_return(content const& returned)
{
    auto const& text = returned.properties.correlation;
    std::uint64_t tag = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), tag);
    // Without the tag the ack that follows would make it "confirmed", which would lose the message.
    if (error != std::errc{} || end != text.data() + text.size())
        throw connection_lost{"the broker returned a message without the id that tells which"};
    SKALD_FAILPOINT("relay.returned");
    window_.returned(tag, returned.reason);
}

void publish_session::close() noexcept
{
    broker_.close();
}

}  // namespace skald::rabbitmq
