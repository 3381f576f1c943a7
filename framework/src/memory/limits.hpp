// What can be sent: the same limits that RabbitMQ's wire has, so that a test learns about them without a broker.
#pragma once

#include "core/message.hpp"

#include <string>

namespace skald::memory {

/// Why the message can never be sent; empty if it can.
std::string refusal(core::message const& message);

}  // namespace skald::memory
