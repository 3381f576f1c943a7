// Which bodies are kept apart from what refers to them. Pure: it only rewrites the changes. See docs/bodies.md.
#pragma once

#include "ports/store.hpp"

#include <cstddef>
#include <string>

namespace skald::runtime {

struct body_rules
{
    std::size_t inline_max{64 * 1024};  // a body of more bytes is kept apart, where whoever needs it can read it
    std::string service{};              // messages to it stay in its own database
    bool is_shared{};                   // the store is one that other services read too
    std::string store{"database"};      // its name, for people
    std::size_t most{core::kept_body_bytes_max};  // a larger one is refused
};

/// Moves the bodies that are too large into `changes.bodies`, and puts references in their place: of messages, the
/// saga, the stored response or reply, and parked messages of handlers. References that were there are held, also those
/// of parked deliveries.
/// Throws ports::fault{broken} for a body that can't be sent: it is larger than any may be, or nothing but a store
/// that its reader has too could bring it to where it is going.
void keep_large_bodies(ports::changes& changes, body_rules const& rules);

}  // namespace skald::runtime
