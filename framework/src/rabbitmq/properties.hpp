// core::message <-> AMQP properties, and the sizes that AMQP allows.
#pragma once

#include "core/message.hpp"
#include "rabbitmq/amqp.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace skald::rabbitmq {

struct decoded_properties
{
    core::message message;    // id, type, content type and headers
    std::string correlation;  // what its publisher recognizes it by, in `app_id`
    int returns{};            // x-delivery-count, which a quorum queue sets from the second delivery on
    std::string left_by;      // x-first-death-reason: why it left the queue it was sent to; empty: it did not
    std::string sent_to;      // x-first-death-exchange: the exchange that it was published to, if it left a queue
    std::string problem;      // what could not be read, in one line; the rest is there
};

/// Any client that may publish to the exchange decides what arrives here.
///
/// Text stays as it is; whole numbers, booleans and times become text. Everything else that a header may be (tables,
/// arrays, floating point, ...) has no text form that every sender and reader would agree on: it is left out and named
/// in `problem`. Missing properties are empty.
decoded_properties decode_properties(amqp_basic_properties_t const& properties);

inline constexpr std::size_t body_bytes_max = 16 * 1024 * 1024;

/// Why the message can never be sent on a connection with frames of at most `frame_max` bytes; empty if it can.
///
/// Call it before publishing: amqp_basic_publish sends the method frame before it encodes the header, so that a field
/// that is too long leaves the channel in the middle of a message and costs the connection, again at every retry.
std::string refusal(core::message const& message, std::size_t frame_max);

/// The properties of one publish. Points into the message and into itself: both must live until it is sent.
class encoded_properties
{
public:
    /// `correlation` comes back in a basic.return, which carries no delivery tag.
    encoded_properties(core::message const& message, std::string const& correlation);
    encoded_properties(encoded_properties const&) = delete;
    encoded_properties& operator=(encoded_properties const&) = delete;

    amqp_basic_properties_t const* get() const { return &properties_; }

private:
    std::vector<amqp_table_entry_t> entries_;
    amqp_basic_properties_t properties_{};
};

}  // namespace skald::rabbitmq
