// What `skald saga` has in files of their own: steps between their two transactions, and versions.
#pragma once

#include "commands.hpp"

#include "core/identity.hpp"

namespace skald::tools {

/// The saga's key, and --scope.
void add_identity(CLI::App& command, core::saga_id& id);

/// `skald saga resolve` and `skald saga signal`.
void add_resolve_and_signal(CLI::App& saga, output& out, choice& chosen);

/// `skald saga versions`.
void add_versions(CLI::App& saga, output& out, choice& chosen);

}  // namespace skald::tools
