// A message as RabbitMQ delivered it, with all its properties and headers, of whatever type.
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
    /// Takes ownership of what amqp_read_message() has filled in.
    captured(std::string service, amqp_message_t const& filled) : service_{std::move(service)}, message_{filled} {}
    ~captured() { amqp_destroy_message(&message_); }
    captured(captured const&) = delete;
    captured& operator=(captured const&) = delete;

    std::string const& service() const { return service_; }
    amqp_message_t const& message() const { return message_; }

    /// Approximate memory that it takes.
    std::size_t bytes() const { return message_.body.len + pool_bytes; }

private:
    static constexpr std::size_t pool_bytes = 8 * 1024;

    std::string service_;
    amqp_message_t message_;
};

using captured_ptr = std::shared_ptr<captured const>;

}  // namespace skald::tools
