// A message as RabbitMQ delivered it, with each of its properties and headers, whatever their kind.
#pragma once

#include "rabbitmq/amqp.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace skald::tools {

class captured
{
public:
    /// Takes over what amqp_read_message() has filled.
    captured(std::string service, amqp_message_t const& filled) : service_{std::move(service)}, message_{filled} {}
    ~captured() { amqp_destroy_message(&message_); }
    captured(captured const&) = delete;
    captured& operator=(captured const&) = delete;

    std::string const& service() const { return service_; }
    amqp_message_t const& message() const { return message_; }

    /// About what it takes in memory.
    std::size_t bytes() const { return message_.body.len + pool_bytes; }

private:
    static constexpr std::size_t pool_bytes = 8 * 1024;

    std::string service_;
    amqp_message_t message_;
};

using captured_ptr = std::shared_ptr<captured const>;

}  // namespace skald::tools
