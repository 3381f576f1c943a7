// Assembles a message from its frames: a method, a header, and as many body frames as it needs.
//
// Works frame by frame and without waiting, so that a broker that stops in the middle of a message does not stop its
// reader; rabbitmq-c 0.11 can read a whole message only by blocking.
#pragma once

#include "rabbitmq/properties.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace skald::rabbitmq {

/// What a basic.deliver or a basic.return brought.
struct content
{
    bool returned{};               // a basic.return, otherwise a basic.deliver
    std::uint64_t delivery_tag{};  // basic.deliver
    bool redelivered{};            // basic.deliver
    std::string consumer;          // basic.deliver: the consumer tag
    std::string exchange;          // basic.deliver
    std::string routing_key;       // basic.deliver
    std::string reason;            // basic.return: code and text
    decoded_properties properties;
};

class content_reader
{
public:
    /// The content that this frame completes, if any. To be called with every frame of the channel that is part of a
    /// content: see is_part(). Throws: connection_lost if the frames make no sense.
    std::optional<content> feed(amqp_frame_t const& frame);

    static bool is_part(amqp_frame_t const& frame);

    /// The delivery that has begun but is not complete: the culprit if the next frame can't be decoded.
    content const* unfinished() const { return unfinished_ ? &*unfinished_ : nullptr; }

private:
    void begin(amqp_method_t const& method);
    void read_header(amqp_frame_t const& frame);
    void read_body(amqp_bytes_t fragment);

    std::optional<content> unfinished_;
    bool header_read_{};
    std::uint64_t missing_{};  // bytes of the body
};

}  // namespace skald::rabbitmq
