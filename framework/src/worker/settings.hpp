// The settings, once: their variable, flag, meaning, and how each is read. Environment, command line and --help
// all come from this table.
#pragma once

#include <skald/config.hpp>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald::worker_detail {

struct setting
{
    std::string_view variable;  // "SKALD_LANES"
    std::string_view flag;      // "--lanes"; empty for what must not stand on a command line
    std::string_view meaning;
    void (*set)(config&, std::string_view value);  // throws std::invalid_argument with what would be right
    std::string (*show)(config const&);
};

std::span<setting const> settings();

using environment = std::map<std::string, std::string>;

/// This process's variables.
environment read_environment();

/// Throws configuration_error where a value is one that the environment could not have given.
void check(config const& c);

/// Throws configuration_error.
config from(std::string service, environment const& variables, std::vector<std::string> const& arguments);

}  // namespace skald::worker_detail
