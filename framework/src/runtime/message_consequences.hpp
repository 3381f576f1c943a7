// What follows from a message that belongs to no saga, besides its record: itself once more, and its reply. Pure.
#pragma once

#include "ports/store.hpp"
#include "runtime/task.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace skald::runtime {

/// The same message for its handler again, with the envelope's numbers.
ports::enqueued message_again(task const& t, core::envelope const& e, std::chrono::milliseconds wait);

/// The same message for a handler that this process does not have, which it waits for since then.
ports::enqueued message_unchanged(task const& t, std::string_view service, core::instant since,
                                  std::chrono::milliseconds wait);

/// Since when; nothing: it has not waited yet.
std::optional<core::instant> waits_since(task const& t);

/// Kept for whoever sends the message again; and sent, if this one says where to.
void add_reply(ports::changes& changes, task const& t, std::string const& body);

/// The stored reply, to where a duplicate says.
void repeat_reply(ports::changes& changes, task const& t);

}  // namespace skald::runtime
