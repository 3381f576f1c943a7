// Skald's own invariants: what must be true of every key, over all databases.
#pragma once

#include "audit/facts.hpp"
#include "audit/finding.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace skald::audit {

/// What the broker, or the inboxes, say.
struct queues_seen
{
    std::map<std::string, std::optional<unsigned>> waiting;  // messages in a service's queue; nothing: not known
    bool sees_held{true};                                    // also those that a process holds
};

struct surroundings
{
    std::vector<std::string> services;  // whose databases were given
    std::string file;                   // in which they are named
    queues_seen queues{};
    std::string day_ago{};  // what has not changed since is explained by no queue
};

/// What is wrong with one key, at this moment. Pure: whether it counts, a second look decides.
std::vector<finding> examine(key_facts const& facts, surroundings const& around);

}  // namespace skald::audit
