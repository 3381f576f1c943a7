// Data of an older version, on its way into a step's code and out of it.
#pragma once

#include "runtime/task.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace skald::runtime {

/// What the upcasts of the step's definition make of `body`, for the step to read; nothing if it reads `body` itself.
/// Throws data_error, and what an upcast throws.
std::optional<std::string> upcast(step_message const& m, std::string_view body);

/// Reads the data for a run of the step. Throws likewise.
std::unique_ptr<detail::step_run> read_for_run(step_message const& m, std::string_view body);

/// What goes on of data that came as `received`, when the step has left `data`, and of which version it is: 0 if still
/// of the message's. What the step did not change goes on as it came; so does the old form, as long as it can say what
/// the step has changed, since the processes of older versions can read that.
int write_back(step_message const& m, std::string_view received, std::string& data);

}  // namespace skald::runtime
