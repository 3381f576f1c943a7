// What every transport refuses to send: the limits of RabbitMQ's wire, so that a message means the same on each.
#pragma once

#include "core/message.hpp"

#include <string>

namespace skald::transports {

/// Why the message can never be sent; empty if it can.
std::string why_never_sent(core::message const& message);

/// Why one that was received could never be sent again, with what Skald adds to it then; empty if it could. Its body,
/// which is sent as it came, is not looked at.
std::string why_never_again(core::message const& received);

}  // namespace skald::transports
