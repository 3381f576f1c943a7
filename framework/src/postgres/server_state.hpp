// What the connections of one process have learned of their server, and tell each other.
#pragma once

#include "postgres/leftovers.hpp"

#include <atomic>
#include <cstdint>

namespace skald::postgres {

/// Threads: any.
struct server_state
{
    /// Counts on when a node turns out to be read-only: every connection that is older is dropped at its next use.
    std::atomic<std::uint64_t> node{1};

    /// Whether somebody has looked that no pooler stands before it that hands out its sessions by transaction.
    std::atomic<bool> pooler_examined{false};

    /// Which steps leave something in their sessions.
    leftover_watch leftovers;
};

}  // namespace skald::postgres
