// Commands of `skald saga` that change sagas: of one, by its key, or of many, by a filter.
#pragma once

#include "commands.hpp"

#include "admin/saga_list.hpp"

#include <functional>

namespace skald::tools {

/// `--where`, `--status`, `--definition` and `--older-than`. What it returns reads what was given into the filter when
/// the command runs, and throws configuration_error.
std::function<void()> add_saga_filter(CLI::App& command, admin::saga_filter& filter);

/// `skald saga cancel`, `pause`, `resume` and `retry`.
void add_orders(CLI::App& saga, output& out, choice& chosen);

}  // namespace skald::tools
