// The one place that knows what PostgreSQL's and libpqxx's errors mean.
#pragma once

#include "ports/fault.hpp"

namespace skald::postgres {

/// What the exception that is being handled means, met while a step ran or before COMMIT was sent.
/// To be called in a catch block.
ports::fault classify_current();

/// The same for Skald's own statements, before and without a step's: what took too long there was slow, and not wrong.
ports::fault classify_current_of_ours();

/// Whether the exception that is being handled says that the server takes no writes. To be called in a catch block.
bool says_read_only();

/// The same as classify_current() for the query that holds COMMIT.
ports::fault classify_current_at_commit();

}  // namespace skald::postgres
