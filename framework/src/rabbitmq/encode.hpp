// core::message -> AMQP properties, and the sizes that AMQP allows.
#pragma once

#include "core/message.hpp"
#include "rabbitmq/amqp.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace skald::rabbitmq {

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
