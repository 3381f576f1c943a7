// The commands of `skald`: each adds its name and options to the command line, reads its settings from the environment,
// and returns the exit code.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace skald::tools {

/// How a command reports what it did: a sentence for people, or one JSON object for programs.
struct output
{
    bool json{};

    /// Control characters in the sentence are shown as text, because it quotes what anyone may have written. Line feeds
    /// are its own, so what it quotes must come from core::visible_text().
    void tell(std::string const& sentence, nlohmann::json const& object) const;

    /// Reports why nothing was done, {"refused": why}, and returns the exit code for that.
    int refuse(std::string const& why) const;

    /// The same of what went wrong, which may be of several lines: returns `code`.
    int fail(std::string_view why, int code) const;

    /// Reports that nobody knows whether it was done, {"unknown": text}, and returns the exit code for that.
    int doubt(std::string const& text) const;

    /// Adds --json to a command.
    void add_flag(CLI::App& command);
};

/// `--reason TEXT`, which is kept: it says something, in UTF-8.
CLI::Option* add_reason(CLI::App& command, std::string& reason, std::string const& help);

/// A line on stderr, for people: control characters other than line feeds are shown as text.
void complain(std::string_view why);

/// What the command line selected, to be run once all of it has been parsed; returns the exit code.
using choice = std::function<int()>;

// The commands throw configuration_error, and what pqxx and the transport throw.
void add_saga_commands(CLI::App& app, output& out, choice& chosen);
void add_started_commands(CLI::App& app, output& out, choice& chosen);
void add_parked_commands(CLI::App& app, output& out, choice& chosen);
void add_migrate_command(CLI::App& app, output& out, choice& chosen);
void add_new_command(CLI::App& app, output& out, choice& chosen);
void add_declare_command(CLI::App& app, output& out, choice& chosen);
void add_relay_command(CLI::App& app, output& out, choice& chosen);
void add_purge_command(CLI::App& app, output& out, choice& chosen);
void add_outbox_commands(CLI::App& app, output& out, choice& chosen);
void add_doctor_command(CLI::App& app, output& out, choice& chosen);
void add_audit_command(CLI::App& app, output& out, choice& chosen);
void add_conform_command(CLI::App& app, output& out, choice& chosen);
void add_duplicate_command(CLI::App& app, output& out, choice& chosen);
void add_console_command(CLI::App& app, output& out, choice& chosen);

}  // namespace skald::tools
