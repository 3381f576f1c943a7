// The commands of `skald`: each reads its settings from the environment and returns the exit code.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace skald::tools {

/// How a command tells what it did: a sentence for people, or one JSON object for programs.
struct output
{
    bool json{};
    void tell(std::string const& sentence, nlohmann::json const& object) const;

    /// Tells why nothing was done, {"refused": why}, and returns the exit code for that.
    int refuse(std::string const& why) const;

    /// --json, on a command.
    void add_flag(CLI::App& command);
};

/// What was chosen on the command line, to be run when all of it was read; it returns the exit code.
using choice = std::function<int()>;

void add_saga_commands(CLI::App& app, output& out, choice& chosen);
void add_parked_commands(CLI::App& app, output& out, choice& chosen);

/// Throws configuration_error, and what pqxx throws.
int migrate(std::string const& service, output const& out);
int relay(bool until_empty, output const& out);

struct purge_options
{
    std::optional<int> older_than;  // days; without it SKALD_RETENTION_DAYS
    bool dry_run{};
    int batch_max{500};
};
int purge(purge_options const& options, output const& out);

/// What is too much: then the exit code is 1.
struct outbox_limits
{
    std::optional<std::int64_t> rows;
    std::optional<std::int64_t> age_seconds;
};
int outbox_status(outbox_limits const& limits, output const& out);

int doctor(output const& out);

struct duplicate_options
{
    std::vector<std::string> services;
    int times{3};
    std::int64_t later_ms{30'000};
    std::int64_t for_ms{};  // 0: until SIGTERM
    std::uint64_t seed{};
    bool staging{};
};
void add_duplicate_options(CLI::App& command, duplicate_options& options);
int duplicate(duplicate_options const& options, output const& out);

/// Replaces this process by skald-bench with these words; returns only by throwing configuration_error.
[[noreturn]] void become_bench(std::vector<std::string> words);

}  // namespace skald::tools
