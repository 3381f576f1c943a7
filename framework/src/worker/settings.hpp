// The single table of all settings: variable, flag, meaning and parser of each. Environment, command line and --help
// are all derived from it.
#pragma once

#include <skald/config.hpp>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald::worker_detail {

/// How `--help` arranges them.
enum class setting_group {
    usual,       // those that most services set; `--help` shows them
    other,       // `--help-all` shows the rest
    http_limit,  // http_limits, and how long a client may wait
};

struct setting
{
    setting_group group;
    std::string_view variable;  // "SKALD_LANES"
    std::string_view flag;      // "--lanes"; empty if it must not appear on a command line
    std::string_view meaning;
    void (*set)(config&, std::string_view value);  // throws std::invalid_argument that says what is valid
    std::string (*show)(config const&);
};

std::span<setting const> settings();

using environment = std::map<std::string, std::string>;

/// This process's environment variables.
environment read_environment();

/// The value of that argument, `--name value` or `--name=value`, which is taken out. Throws configuration_error if it
/// has none.
std::optional<std::string> take_argument(std::vector<std::string>& arguments, std::string const& name);

/// Whether a SKALD_ variable is there for another reason than to be a setting, and so is passed over: Kubernetes tells
/// every pod of the Services of its namespace, one named `skald-console` too, and `skald audit --against` tells its
/// command of the period.
bool is_no_setting(std::string_view variable, std::string_view value);

/// Throws configuration_error if a value is one that the environment could not have supplied.
void check(config const& c);

/// Throws configuration_error.
config from(environment const& variables, std::vector<std::string> const& arguments);

}  // namespace skald::worker_detail
