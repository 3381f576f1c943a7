// What the connections of one process have learned about their server, and share.
#pragma once

#include "postgres/leftovers.hpp"

#include <atomic>
#include <cstdint>

namespace skald::postgres {

/// Threads: any.
struct server_state
{
    /// Incremented when a node turns out to be read-only: every older connection is dropped at its next use.
    std::atomic<std::uint64_t> node{1};

    /// Whether it was checked that no pooler before the server hands out its sessions by transaction.
    std::atomic<bool> pooler_examined{false};

    /// Which steps leave something in their sessions.
    leftover_watch leftovers;
};

}  // namespace skald::postgres
