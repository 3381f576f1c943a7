// What `skald saga` has for steps between their two transactions.
#pragma once

#include "commands.hpp"

#include "core/identity.hpp"

namespace skald::tools {

/// The saga's key, and --scope.
void add_identity(CLI::App& command, core::saga_id& id);

/// `skald saga resolve` and `skald saga signal`.
void add_resolve_and_signal(CLI::App& saga, output& out, choice& chosen);

}  // namespace skald::tools
