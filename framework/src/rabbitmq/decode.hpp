// AMQP properties -> core::message. Any client that may publish to the exchange decides what arrives here.
#pragma once

#include "core/message.hpp"
#include "rabbitmq/amqp.hpp"

#include <string>

namespace skald::rabbitmq {

struct decoded_properties
{
    core::message message;  // id, type, content type and headers
    std::string correlation;
    int returns{};        // x-delivery-count, which a quorum queue sets from the second delivery on
    std::string left_by;  // x-first-death-reason: why it left the queue it was sent to; empty: it did not
    std::string problem;  // what could not be read, in one line; the rest is there
};

/// Text stays as it is; whole numbers, booleans and times become text. Everything else that a header may be (tables,
/// arrays, floating point, ...) has no text form that every sender and reader would agree on: it is left out and named
/// in `problem`. Missing properties are empty.
decoded_properties decode_properties(amqp_basic_properties_t const& properties);

}  // namespace skald::rabbitmq
