// What follows from a message that belongs to no saga, besides its record: itself once more, and its reply. Pure.
#pragma once

#include "ports/store.hpp"
#include "runtime/task.hpp"

#include <chrono>
#include <string>

namespace skald::runtime {

/// The same message for its handler again, with the envelope's numbers.
ports::enqueued message_again(task const& t, core::envelope const& e, std::chrono::milliseconds wait);

/// Kept for whoever sends the message again; and sent, if this one says where to.
void add_reply(ports::changes& changes, task const& t, std::string const& body);

/// The stored reply, to where a duplicate says.
void repeat_reply(ports::changes& changes, task const& t);

}  // namespace skald::runtime
