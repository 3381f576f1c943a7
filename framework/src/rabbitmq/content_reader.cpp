#include "rabbitmq/content_reader.hpp"

#include "core/assert.hpp"
#include "rabbitmq/errors.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace skald::rabbitmq {
namespace {

// The announced size comes from outside: it is trusted only for what memory is reserved in advance.
constexpr std::uint64_t reserved_bytes_max = 1024 * 1024;

// Twice what an outbox accepts: nothing of Skald's is larger. Another sender's message may be, and as many as are
// prefetched must not fill the memory; such a message is parked anyway.
constexpr std::size_t body_bytes_kept_max = 2 * 1024 * 1024;

[[noreturn]] void out_of_order(char const* what)
{
    throw connection_lost{fmt::format("the broker sent {} out of order", what)};
}

}  // namespace

bool content_reader::is_part(amqp_frame_t const& frame)
{
    switch (frame.frame_type) {
    case AMQP_FRAME_HEADER:
    case AMQP_FRAME_BODY: return true;
    case AMQP_FRAME_METHOD:
        return frame.payload.method.id == AMQP_BASIC_DELIVER_METHOD ||
               frame.payload.method.id == AMQP_BASIC_RETURN_METHOD;
    default: return false;
    }
}

std::optional<content> content_reader::feed(amqp_frame_t const& frame)
{
    switch (frame.frame_type) {
    case AMQP_FRAME_METHOD: begin(frame.payload.method); break;
    case AMQP_FRAME_HEADER: read_header(frame); break;
    default: read_body(frame.payload.body_fragment); break;
    }
    if (!header_read_ || missing_ > 0) return std::nullopt;
    SKALD_ASSERT(unfinished_);  // no header is read before its method
    header_read_ = false;
    return std::exchange(unfinished_, std::nullopt);
}

void content_reader::begin(amqp_method_t const& method)
{
    if (unfinished_) out_of_order("a message");
    SKALD_ASSERT(!header_read_ && missing_ == 0);  // the last one was returned whole
    auto& begun = unfinished_.emplace();
    if (method.id == AMQP_BASIC_DELIVER_METHOD) {
        auto const& deliver = *static_cast<amqp_basic_deliver_t const*>(method.decoded);
        begun.delivery_tag = deliver.delivery_tag;
        begun.redelivered = deliver.redelivered != 0;
        begun.consumer = view(deliver.consumer_tag);
        begun.exchange = view(deliver.exchange);
        begun.routing_key = view(deliver.routing_key);
    }
    else {
        auto const& given_back = *static_cast<amqp_basic_return_t const*>(method.decoded);
        begun.returned = true;
        begun.reason = fmt::format("{} {}: no queue is bound for `{}`", given_back.reply_code,
                                   view(given_back.reply_text), view(given_back.routing_key));
    }
}

void content_reader::read_header(amqp_frame_t const& frame)
{
    auto const& header = frame.payload.properties;
    if (!unfinished_ || header_read_ || header.class_id != AMQP_BASIC_CLASS) out_of_order("a header");
    unfinished_->properties = decode_properties(*static_cast<amqp_basic_properties_t const*>(header.decoded));
    unfinished_->properties.message.body.reserve(std::min(header.body_size, reserved_bytes_max));
    missing_ = header.body_size;
    header_read_ = true;
    if (header.body_size > body_bytes_kept_max && unfinished_->properties.problem.empty())
        unfinished_->properties.problem = fmt::format(
            "its body has {} bytes; a message holds at most {}, and the others were dropped: its sender puts "
            "the body into SKALD_BODY_STORE and sends the header skald-body (docs/bodies.md)",
            header.body_size, body_bytes_kept_max);
}

void content_reader::read_body(amqp_bytes_t fragment)
{
    if (!unfinished_ || !header_read_ || fragment.len > missing_) out_of_order("a body");
    auto& body = unfinished_->properties.message.body;
    body.append(view(fragment).substr(0, body_bytes_kept_max - std::min(body.size(), body_bytes_kept_max)));
    missing_ -= fragment.len;
}

}  // namespace skald::rabbitmq
