// What every transport refuses to send: the limits of RabbitMQ's wire, so that a message means the same on each.
#pragma once

#include "core/message.hpp"

#include <string>

namespace skald::transports {

/// Why the message can never be sent; empty if it can.
std::string why_never_sent(core::message const& message);

}  // namespace skald::transports
