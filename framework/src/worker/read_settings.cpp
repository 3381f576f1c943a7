// Settings from the environment and the command line, by the table in worker/settings.cpp.
#include "worker/settings.hpp"

#include "core/failpoint.hpp"

#include <skald/errors.hpp>

#include <fstream>
#include <initializer_list>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

#include <fmt/format.h>

namespace skald::worker_detail {
namespace {

// Of a URL without whom it names and their password.
std::string without_user(std::string_view value)
{
    auto const begin = value.find("://"), at = value.rfind('@');
    if (begin == std::string_view::npos || at == std::string_view::npos || at < begin) return std::string{value};
    return std::string{value.substr(0, begin + 3)} + "..." + std::string{value.substr(at)};
}

void set(config& c, setting const& s, std::string_view value, std::string_view named)
try {
    s.set(c, value);
}
catch (std::invalid_argument const& right) {
    throw configuration_error{fmt::format("{}: '{}' is not {}", named, without_user(value), right.what())};
}

// An empty value is more likely an unset variable of a script than an intention; for a certificate it would silently
// mean plain HTTP.
void set_unless_empty(config& c, setting const& s, std::string_view value, std::string_view named)
{
    set(c, s, value, named);
    if (value.find_first_not_of(" \t\r\n") != std::string_view::npos) return;
    auto const usual = s.show(config{});
    throw configuration_error{fmt::format("{}: empty; leave it out to have the default ({})", named,
                                          usual.empty() ? "none" : std::string_view{usual})};
}

std::string read_secret(std::string const& variable, std::string const& path)
{
    std::ifstream file{path};
    file.peek();  // opening a directory succeeds; reading it fails
    if (!file.is_open() || file.bad()) throw configuration_error{variable + ": can't read " + path};
    std::ostringstream read;
    read << file.rdbuf();
    std::string text = read.str();
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    if (text.empty()) throw configuration_error{fmt::format("{}: the file {} is empty", variable, path)};
    return text;
}

setting const* find_variable(std::string_view name)
{
    for (auto const& s : settings())
        if (s.variable == name) return &s;
    return nullptr;
}

setting const* find_flag(std::string_view name)
{
    for (auto const& s : settings())
        if (!s.flag.empty() && s.flag == name) return &s;
    return nullptr;
}

constexpr std::string_view file_suffix = "_FILE";

// Takes the first of `ends` that the text ends with off it.
bool take_end(std::string_view& text, std::initializer_list<std::string_view> ends)
{
    for (auto const end : ends) {
        if (!text.ends_with(end)) continue;
        text.remove_suffix(end.size());
        return true;
    }
    return false;
}

// SKALD_CONSOLE_SERVICE_HOST, _SERVICE_PORT, _SERVICE_PORT_HTTP, _PORT, _PORT_8090_TCP, _PORT_8090_TCP_ADDR: what
// Kubernetes makes of the Service skald-console. SKALD_HTTP_PORT=8080 is nobody's but a mistake.
bool is_service_link(std::string_view name, std::string_view value)
{
    if (name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != std::string_view::npos) return false;
    constexpr std::string_view named_port = "_SERVICE_PORT_";
    if (auto const at = name.find(named_port); at != std::string_view::npos)
        return at + named_port.size() < name.size();
    if (name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT")) return true;
    if (name.ends_with("_PORT") && value.find("://") != std::string_view::npos) return true;
    take_end(name, {"_PROTO", "_PORT", "_ADDR"});
    if (!take_end(name, {"_TCP", "_UDP", "_SCTP"})) return false;
    auto const last = name.find_last_not_of("0123456789");
    return last != std::string_view::npos && last + 1 < name.size() && name.substr(0, last + 1).ends_with("_PORT_");
}

// The failpoints read these settings themselves, in builds that have failpoints.
void check_failpoint_setting(std::string const& name, std::string const& value)
{
    if (auto const why = core::refuse_failpoint_setting(name, value); !why.empty())
        throw configuration_error{name + ": " + why};
}

// DATABASE_URL, or DATABASE_URL_FILE naming a file that contains it, so that a secret need not be in the environment.
void apply_variable(config& c, std::string const& name, std::string const& value)
{
    // Those of OpenTelemetry and of AWS are others' too, who take an empty one as if it were not there.
    if (value.empty() && (name.starts_with("OTEL_") || name.starts_with("AWS_"))) return;
    if (auto const* s = find_variable(name)) return set_unless_empty(c, *s, value, name);
    if (name.ends_with(file_suffix))
        if (auto const* s = find_variable(std::string_view{name}.substr(0, name.size() - file_suffix.size())))
            return set_unless_empty(c, *s, read_secret(name, value), name);
    if (core::is_failpoint_setting(name)) return check_failpoint_setting(name, value);
    if (name.starts_with("SKALD_") && !is_no_setting(name, value))
        throw configuration_error{name + " is no setting of Skald's; a service's --help-all lists them all"};
}

// Which of the two would count nobody can tell from outside.
void refuse_both(environment const& variables)
{
    for (auto const& s : settings()) {
        auto const file = std::string{s.variable} + std::string{file_suffix};
        if (!s.variable.empty() && variables.contains(std::string{s.variable}) && variables.contains(file))
            throw configuration_error{fmt::format("{} and {} are both set: leave one out", s.variable, file)};
    }
}

void apply_arguments(config& c, std::vector<std::string> const& arguments)
{
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        auto const& argument = arguments[i];
        auto const equals = argument.find('=');
        auto const name = argument.substr(0, equals);
        auto const* s = find_flag(name);
        if (s == nullptr) throw configuration_error{"unknown argument " + argument + "; --help-all lists them all"};
        if (equals != std::string::npos) set_unless_empty(c, *s, argument.substr(equals + 1), name);
        else if (i + 1 < arguments.size()) set_unless_empty(c, *s, arguments[++i], name);
        else throw configuration_error{name + " needs a value"};
    }
}

}  // namespace

environment read_environment()
{
    environment variables;
    for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
        std::string_view const text{*entry};
        auto const equals = text.find('=');
        if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return variables;
}

std::optional<std::string> take_argument(std::vector<std::string>& arguments, std::string const& name)
{
    for (auto it = arguments.begin(); it != arguments.end(); ++it) {
        if (it->starts_with(name + '=')) {
            auto value = it->substr(name.size() + 1);
            arguments.erase(it);
            return value;
        }
        if (*it != name) continue;
        if (it + 1 == arguments.end()) throw configuration_error{name + " needs a value"};
        auto value = *(it + 1);
        arguments.erase(it, it + 2);
        return value;
    }
    return {};
}

bool is_no_setting(std::string_view variable, std::string_view value)
{
    return variable == "SKALD_AUDIT_SINCE" || variable == "SKALD_AUDIT_UNTIL" || is_service_link(variable, value);
}

void check(config const& c)
{
    config copy;
    for (auto const& s : settings())
        if (auto const value = s.show(c); !s.flag.empty() && !(value.empty() && s.flag == "--listen"))
            set(copy, s, value, s.variable);
}

config from(environment const& variables, std::vector<std::string> const& arguments)
{
    config c;
    refuse_both(variables);
    for (auto const& [name, value] : variables) apply_variable(c, name, value);
    apply_arguments(c, arguments);
    c.check();
    return c;
}

}  // namespace skald::worker_detail
