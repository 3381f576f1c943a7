// All that the databases of all services know of one key.
#pragma once

#include "core/itinerary.hpp"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace skald::audit {

struct saga_fact
{
    std::string home, status, at;
    std::string itinerary;
    bool is_old{};
    bool expires{};  // its retention has passed: what is missing was deleted

    bool has_ended() const { return status == "completed" || status == "compensated"; }
};

struct record_fact
{
    std::string service, step, status, at;
    std::string home;  // empty: not known
    bool is_old{};

    bool is_of(std::string const& other) const { return home.empty() || home == other; }
    bool is_compensation() const { return step.ends_with(".compensate"); }
};

/// A message for a step, in an outbox.
struct message_fact
{
    std::string service, id, to, home, at;
    bool is_old{};
};

struct parked_fact
{
    std::string service, id, step, reason, at;
    std::string home;  // empty: its headers don't say
    bool is_old{};
};

struct key_facts
{
    std::string scope, key;
    std::vector<saga_fact> sagas;  // of one key at several homes: a mistake that is refused, and yet may be met
    std::vector<record_fact> records;
    std::vector<message_fact> messages;
    std::vector<parked_fact> parked;
    std::vector<std::pair<std::string, std::string>> not_undone;  // the home, and the step
    std::set<std::string> paused, closed;                         // homes that have given that command last
    std::set<std::string> busy;  // services with an outbox row, a report or a parked delivery of it
    std::string latest;          // the moment of the newest of these
    bool is_old{true};           // all of them are older than the grace period

    saga_fact const* saga_at(std::string const& home) const
    {
        for (auto const& one : sagas)
            if (one.home == home) return &one;
        return nullptr;
    }
};

/// Adds what one database says: `what` and the JSON in `fact` are as audit_facts of sql/queries selects them.
void add_fact(key_facts& to, std::string const& service, std::string_view what, std::string_view fact, std::string at,
              bool is_old);

}  // namespace skald::audit
