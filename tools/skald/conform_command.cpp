// `skald conform`: whether a participant does every step once, whatever happens to it.
#include "commands.hpp"
#include "database.hpp"
#include "durations.hpp"

#include "conform/trial.hpp"
#include "conform/verdict.hpp"
#include "core/identity.hpp"
#include "core/shell_word.hpp"
#include "core/uuid.hpp"
#include "postgres/migrate.hpp"
#include "rabbitmq/administration.hpp"
#include "rabbitmq/url.hpp"
#include "worker/signals.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>

namespace skald::tools {
namespace {

using conform::violation;

constexpr std::size_t shown_of_a_rule = 3;
constexpr int not_found_out = 1;
constexpr int does_not_conform = 3;

struct conform_options
{
    std::string service, command, certificate, log;
    conform::plan_size size;
    std::int64_t patience_ms{20'000}, longest_ms{1'200'000};
    std::uint64_t seed{std::random_device{}()};
};

/// The queue is there, empty, and this database's.
void prepare(std::string const& service, config const& settings)
{
    postgres::migrate(settings.database_url, service);
    rabbitmq::provision(broker_url(settings), service, postgres::own_database(settings.database_url, service).database);
    auto const queue = rabbitmq::inspect(settings.amqp_url, service).queue;
    if (queue && queue->consumers > 0)
        throw configuration_error{
            fmt::format("{} processes consume the queue skald.{} already: stop them, or use servers of "
                        "their own for this (scripts/stack.sh up)",
                        queue->consumers, service)};
    if (queue && queue->messages > 0)
        throw configuration_error{fmt::format(
            "the queue skald.{0} holds {1} messages: empty it (rabbitmqctl{2} purge_queue skald.{0}), or "
            "use servers of their own for this (scripts/stack.sh up)",
            service, queue->messages, rabbitmq::vhost_option(rabbitmq::parse_url(settings.amqp_url).vhost))};
}

std::string in_words(violation const& one)
{
    auto const& [scope, key, step] = one.step;
    auto where = fmt::format("{}{}", step, step.empty() || key.empty() ? "" : " of ");
    where += key + (scope.empty() ? "" : fmt::format(" (scope {})", scope));
    return fmt::format("{}: {}{}{}", one.rule, where, where.empty() ? "" : ": ", one.what);
}

std::string in_words(std::vector<violation> const& all)
{
    std::string text;
    std::map<std::string, std::size_t> counts;
    for (auto const& one : all) ++counts[one.rule];
    std::map<std::string, std::size_t> told;
    for (auto const& one : all) {
        auto const number = ++told[one.rule];
        if (number <= shown_of_a_rule) text += '\n' + in_words(one);
        if (number == std::min(shown_of_a_rule, counts[one.rule])) {
            if (counts[one.rule] > shown_of_a_rule) text += fmt::format("\n    and {} more", counts[one.rule] - number);
            text += fmt::format("\n    do: {}", one.remedy);
        }
    }
    return text;
}

/// At the start too, so that a run which does not come to its end leaves none of another run.
void write_certificate(std::string const& path, nlohmann::json const& text)
{
    if (!path.empty() && !(std::ofstream{path} << text.dump(2) << '\n'))
        throw configuration_error{"the certificate can't be written: " + path};
}

/// How many of the planned ones have come.
std::size_t came(conform::plan const& planned, conform::seen const& shown, auto const& fits)
{
    std::size_t count = 0;
    planned.for_each([&](conform::saga const& s) {
        if (s.trouble && fits(s.trouble->what) && shown.struck.contains(s.name)) ++count;
    });
    return count;
}

nlohmann::json listed(std::vector<violation> const& all, bool open)
{
    auto listed = nlohmann::json::array();
    for (auto const& one : all) {
        if (one.is_open != open) continue;
        auto const& [scope, key, step] = one.step;
        listed.push_back({{"rule", one.rule},
                          {"scope", scope},
                          {"key", key},
                          {"step", step},
                          {"what", one.what},
                          {"do", one.remedy}});
    }
    return listed;
}

nlohmann::json certificate(conform_options const& options, conform::plan const& planned, std::size_t spoilt,
                           conform::seen const& shown, std::vector<violation> const& found)
{
    nlohmann::json made{{"service", options.service},
                        {"command", options.command},
                        {"skald", SKALD_VERSION},
                        {"at", shown.at},
                        {"seed", options.seed},
                        {"processes", options.size.processes},
                        {"sagas", planned.size()},
                        {"sent", shown.sent},
                        {"duplicates", shown.duplicates},
                        {"spoilt", spoilt},
                        {"kills", shown.kills},
                        {"cuts", came(planned, shown, conform::is_cut)},
                        {"refusals", came(planned, shown, conform::is_refusal)},
                        {"conforms", found.empty()},
                        {"violations", listed(found, false)},
                        {"not_found_out", listed(found, true)}};
    if (!found.empty() && made["violations"].empty()) made["why"] = "not found out";
    return made;
}

conform::trial_options trial_options_of(conform_options const& options, config const& settings, std::string const& run,
                                        worker_detail::signals const& signals)
{
    conform::trial_options made;
    made.service = options.service;
    made.command = options.command;
    made.relay = "exec " + core::shell_word(std::filesystem::read_symlink("/proc/self/exe")) + " relay";
    made.broker_url = settings.amqp_url;
    made.database = database_options(settings, "conform");
    made.log = options.log;
    made.run = run;
    made.seed = options.seed;
    made.processes = options.size.processes;
    made.patience = std::chrono::milliseconds{options.patience_ms};
    made.longest = std::chrono::milliseconds{options.longest_ms};
    made.is_interrupted = [&signals] { return signals.wait(std::chrono::milliseconds{0}); };
    made.tell = [](std::string_view what) { complain(what); };
    return made;
}

int run_conform(conform_options const& options, output const& out)
{
    if (!core::is_name(options.service))
        throw configuration_error{fmt::format("--service: '{}' is not a service's name: a lower-case letter, then "
                                              "lower-case letters, digits and dashes, 48 at most",
                                              options.service)};
    if (options.service == conform::home)
        throw configuration_error{
            "--service is the name of the participant's service, and not `conform`, which is the sagas' home"};
    write_certificate(options.certificate,
                      {{"service", options.service}, {"conforms", false}, {"why", "not finished"}});
    auto const settings = config::from_environment();
    refuse_without_broker(settings, "conform");
    worker_detail::signals const signals;
    prepare(options.service, settings);
    // Those of the settings may have come from files, and no setting may be there twice.
    for (auto const* const file : {"DATABASE_URL_FILE", "AMQP_URL_FILE"}) ::unsetenv(file);
    ::setenv("DATABASE_URL", settings.database_url.c_str(), 1);
    ::setenv("AMQP_URL", settings.amqp_url.c_str(), 1);

    auto const run = core::make_uuid_v7();
    auto const planned = conform::make_plan(run, options.seed, options.size);
    auto const spoilt = conform::make_spoilt(run, options.service);
    complain(fmt::format("{}: `{}`, seed {}, keys {}-...", options.service, options.command, options.seed, run));
    conform::trial trial{trial_options_of(options, settings, run, signals)};
    auto const shown = trial.run(planned, spoilt);
    auto const found = conform::judge(planned, spoilt, shown);

    auto const proof = certificate(options, planned, spoilt.size(), shown, found);
    write_certificate(options.certificate, proof);
    auto const done =
        fmt::format("{} sagas, {} messages and {} duplicates of them, {} spoilt ones, {} kills, seed {}",
                    planned.size(), shown.sent, shown.duplicates, spoilt.size(), shown.kills, options.seed);
    bool const is_open = proof.contains("why");
    auto const verdict = found.empty() ? "conforms"
                         : is_open     ? "may conform, which could not be found out"
                                       : "does not conform";
    out.tell(fmt::format("{} {}: {}{}", options.service, verdict, done, in_words(found)), proof);
    return found.empty() ? 0 : is_open ? not_found_out : does_not_conform;
}

}  // namespace

void add_conform_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand(
        "conform",
        "run a participant in any language, disturb it, and say whether it does every step once: for test servers");
    auto const options = std::make_shared<conform_options>();
    command->add_option("--service", options->service, "the participant's service; its queue is skald.NAME")
        ->required();
    command->add_option("--command", options->command, "what starts a process of it, for sh")->required();
    command->add_option("--processes", options->size.processes, "how many run at a time")
        ->check(CLI::Range(1, 16))
        ->capture_default_str();
    command->add_option("--sagas", options->size.sagas, "how many sagas")
        ->check(CLI::Range(20, 10'000))
        ->capture_default_str();
    command->add_option("--kills", options->size.kills, "how often all processes are killed")
        ->check(CLI::Range(conform::kills_min, 1'000))
        ->capture_default_str();
    command->add_option("--seed", options->seed, "the same seed sends the same, in the same order [random]");
    command
        ->add_option("--patience", options->patience_ms,
                     "what has not moved for that long, stands [20s]: 500ms, 30s, 5m")
        ->transform(milliseconds_with_unit() & CLI::Range(std::int64_t{100}, std::int64_t{3'600'000}));
    command->add_option("--at-most", options->longest_ms, "how long the whole run may take [20m]: 90s, 30m, 2h")
        ->transform(milliseconds_with_unit() & CLI::Range(std::int64_t{1'000}, std::int64_t{86'400'000}));
    command->add_option("--certificate", options->certificate,
                        "write what was done and what was violated to this file, as JSON");
    command->add_option("--log", options->log, "what the processes print is appended to this file [stderr]");
    command->footer("It makes the schema `conform` anew in the database of DATABASE_URL, and kills the processes that "
                    "it has started.\n"
                    "docs/conform.md says what the participant has to have.");
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [options, &out] { return run_conform(*options, out); }; });
}

}  // namespace skald::tools
