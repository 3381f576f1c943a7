// The one place that knows what PostgreSQL's and libpqxx's errors mean.
#pragma once

#include "ports/fault.hpp"

#include <chrono>

namespace skald::postgres {

/// What the exception being handled means, if it was thrown while a step ran or before COMMIT was sent. To be called in
/// a catch block.
ports::fault classify_current();

/// The same for Skald's own statements, before, after and without a step's. There a lock, a timeout, a permission or a
/// missing table is `unavailable`: it says nothing about the message. Only what the data causes is `broken`.
ports::fault classify_current_of_ours();

/// Whether the exception being handled says that another session was in the way: a lock that did not come in time, or a
/// deadlock. All is rolled back, and may be tried again. To be called in a catch block; it takes whatever was thrown,
/// since libpqxx 6 throws a deadlock as no sql_error.
bool says_blocked();

/// Whether another try, of what is rolled back or may be done twice, may not meet the exception being handled again:
/// the server stops, takes no writes for now, is short of something or has cut a statement short, or another session
/// was in the way. To be called in a catch block.
bool may_pass();

/// Whether the exception being handled says that the server takes no writes. To be called in a catch block.
bool says_read_only();

/// The same as classify_current() for the query that holds COMMIT, where both the step's deferred constraints and
/// Skald's own statements run. Which of them caused a timeout is unknown, so a timeout is `retry_at_once`.
ports::fault classify_current_at_commit();

/// The same as classify_current_of_ours() for a query that holds COMMIT and nothing of a step's.
ports::fault classify_current_at_commit_of_ours();

/// The fault of a connection that is closed by now, with what may have closed it: libpqxx discards the server's last
/// message.
ports::fault lost_session(ports::fault const& met, std::chrono::duration<double> since_claim,
                          std::chrono::milliseconds silence_max);

}  // namespace skald::postgres
