// What the commands of `skald parked` share.
#pragma once

#include "admin/parked_deliveries.hpp"
#include "commands.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace skald::tools {

/// Nothing if the text is not such a number.
std::optional<std::int64_t> number_of_parked(std::string_view text);

/// --reason, --scope, --key and --step.
void add_filters(CLI::App& command, admin::parked_filter& filter);

void add_parked_export(CLI::App& parked, output& out, choice& chosen);

}  // namespace skald::tools
