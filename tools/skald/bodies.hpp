// The store of a service's large bodies, as operators' commands use it. See docs/bodies.md.
#pragma once

#include "ports/body_store.hpp"
#include "postgres/migrate.hpp"

#include <skald/config.hpp>

#include <memory>

namespace skald::tools {

/// As the service itself holds bodies there. Null: they are in its database, or nobody owns that yet. Throws
/// configuration_error for settings that can't work, and for a directory that is another user's: what this user made
/// there, the service could not use.
std::shared_ptr<ports::body_store> body_store_of(config const& settings, postgres::ownership const& owner);

}  // namespace skald::tools
