// Whether a service can run what its database holds: asked at start, and by `SERVICE --check-stored`.
#pragma once

#include "core/log.hpp"
#include "postgres/connection.hpp"
#include "runtime/registry.hpp"

#include <skald/config.hpp>
#include <skald/service.hpp>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace skald::worker_detail {

/// Before a process takes its first message: logs what it could not run, and throws configuration_error where the
/// settings ask for that. Looks at a part of them (admin::stored_extent). Throws pqxx::broken_connection.
void check_stored_at_start(config const& settings, std::string const& service, runtime::registry const& steps,
                           postgres::connection_options const& database, core::logger& log);

struct stored_command
{
    bool as_json{};
};

/// Takes `--check-stored` out of `arguments`, and `--json` with it; nothing if it is not among them.
std::optional<stored_command> take_stored_check(std::vector<std::string>& arguments);

/// The database can't be had, or something in it: that may pass.
class stored_not_examined : public std::runtime_error
{
public:
    using runtime_error::runtime_error;
};

/// Reads all that is stored and prints what is wrong with it. Returns the exit code: 0 if nothing is, else 1. Throws
/// configuration_error and stored_not_examined.
int run_stored_check(stored_command const& command, service& of, config const& settings);

extern char const* const stored_check_help;

}  // namespace skald::worker_detail
