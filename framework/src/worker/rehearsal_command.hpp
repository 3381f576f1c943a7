// `SERVICE --rehearse KEY:STEP`: the part of a service's command line that rehearses a step instead of running the
// service.
#pragma once

#include "rehearsal/rehearsal.hpp"

#include <skald/config.hpp>
#include <skald/service.hpp>

#include <optional>
#include <string>
#include <vector>

namespace skald::worker_detail {

struct rehearsal_command
{
    rehearsal::wanted what;
    bool as_json{};
};

/// Takes its arguments out of `arguments`; nothing if `--rehearse` is not among them. Throws configuration_error, also
/// for one of the others without it.
std::optional<rehearsal_command> take_rehearsal(std::vector<std::string>& arguments);

/// Runs the step as the service's workers would with these settings. Returns the report; throws as
/// rehearsal::rehearse().
nlohmann::json rehearse(rehearsal::wanted const& what, service& of, config const& settings);

/// Prints that report to standard output. Returns the exit code: 0 if the step would be done, 1 if it would end in any
/// other way. Throws also if it can't be printed.
int run_rehearsal(rehearsal_command const& command, service& of, config const& settings);

extern char const* const rehearsal_help;

}  // namespace skald::worker_detail
