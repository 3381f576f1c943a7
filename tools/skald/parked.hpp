// What the commands of `skald parked` share.
#pragma once

#include "admin/parked_deliveries.hpp"
#include "commands.hpp"

namespace skald::tools {

/// --reason, --scope, --key and --step.
void add_filters(CLI::App& command, admin::parked_filter& filter);

void add_parked_export(CLI::App& parked, output& out, choice& chosen);

}  // namespace skald::tools
