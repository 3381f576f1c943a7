// What people do to a system while it works: operators to its tables and its sagas, strangers to its HTTP entry and its
// queues.
//
// As in operator.hpp, nothing here expects the servers to be up.
#pragma once

#include "faults.hpp"
#include "settings.hpp"

#include <cstdint>
#include <string>

namespace order_storm {

/// One of Skald's tables, or of the service's own, is locked for that long as if by an ALTER TABLE.
void lock_a_table(std::string const& database_url, random_source& random, milliseconds lasts);

/// VACUUM FULL, REINDEX, or creating and dropping an index, on one of those tables.
void rewrite_a_table(std::string const& database_url, random_source& random);

/// Cancels some of the running sagas, pauses others, and resumes those when the time is over. The url is the home's.
void issue_commands(std::string const& database_url, random_source& random, milliseconds lasts);

/// Resumes what a struck server has left paused. Throws pqxx's exceptions.
void resume_all(std::string const& database_url);

/// Sends deadly orders again that came back so often that they were parked. That is right: a busy machine takes long to
/// find which of many it is that kills. Returns how many. The url is that of payments.
int replay_deadly(std::string const& database_url);

/// Clients that send half a request, bytes that are not HTTP, or read no response: a few hundred connections.
void crowd_the_door(std::uint16_t port, random_source& random, milliseconds lasts);

/// Messages that no Skald service has sent, into the queue of a service, or its topic. Each has an id that begins with
/// forged_id.
void forge_messages(settings const& chosen, std::string const& service, random_source& random);
inline constexpr char const* forged_id = "forged-";

/// From now on charges of some amounts end the session that makes them, however often they are tried. `heals`: every
/// third try of any of them gets through. What a gateway has charged is recorded however often that fails, without a
/// bound: it would never end.
void poison_charges(std::string const& database_url, bool heals);
inline constexpr std::int64_t poisonous_cents = 61;
inline bool ends_its_session(std::int64_t cents)
{
    return cents % poisonous_cents == 0;
}

}  // namespace order_storm
