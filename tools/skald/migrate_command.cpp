// `skald migrate`: brings the schema up to date, and makes topics.
#include "commands.hpp"
#include "database.hpp"
#include "doctor_database.hpp"
#include "kafka_commands.hpp"

#include "postgres/migrate.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace skald::tools {
namespace {

// Retries until it gets the locks, or the caller gives up and stops it.
std::vector<std::string> migrate_patiently(std::string const& url, std::string const& service)
{
    for (;;) {
        try {
            return postgres::migrate(url, service);
        }
        catch (postgres::migration_blocked const& error) {
            complain(fmt::format("{}; trying again", error.what()));
            std::this_thread::sleep_for(std::chrono::seconds{1});
        }
    }
}

// An empty value is more likely an unset variable of a script than an intention to have none.
CLI::Validator not_empty()
{
    auto const refuse = [](std::string& text) {
        return text.empty() ? "empty; name one, or leave it out" : std::string{};
    };
    return {refuse, ""};
}

struct migrate_options
{
    std::string service, role;
    bool adopts{}, topics{};
};

// Of the service, and of what the handlers are bound to that its processes have had.
std::vector<std::string> make_topics(config const& settings, std::string service)
{
    auto c = connect(settings, "migrate");
    if (service.empty()) service = postgres::owner_name(c.raw());
    ports::subscriber who{service};
    who.handlers = handlers_of(c.raw());
    return make_kafka_topics(settings, who);
}

int migrate(migrate_options const& options, output const& out)
{
    auto const& [service, role, adopts, topics] = options;
    auto const settings = config::from_environment();
    if (topics && settings.transport != "kafka")
        throw configuration_error{"--topics is of SKALD_TRANSPORT=kafka; RabbitMQ's queues are declared by `skald "
                                  "declare`, and without a broker by the service itself"};
    if (service.empty()) postgres::require_owner(settings.database_url);
    if (adopts) postgres::adopt(settings.database_url, service);
    auto const applied = migrate_patiently(settings.database_url, service);

    std::string sentence = adopts ? "the database is that of " + service + " from now on; " : "";
    sentence += applied.empty() ? "the schema is up to date" : "applied:";
    for (auto const& name : applied) sentence += ' ' + name;
    if (!role.empty()) {
        postgres::grant(settings.database_url, role);
        sentence += "; " + role + " may use it";
    }
    nlohmann::json told{{"adopted", adopts}, {"applied", applied}, {"granted", role}};
    if (topics) {
        auto const names = make_topics(settings, service);
        sentence += fmt::format("; the topics {} are there", fmt::join(names, ", "));
        told["topics"] = names;
    }
    out.tell(sentence, told);
    return 0;
}

}  // namespace

void add_migrate_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand("migrate", "bring the database's schema `skald` up to date");
    auto const options = std::make_shared<migrate_options>();
    auto* const names = command->add_option("--service", options->service, "the service that owns the database");
    names->check(not_empty());
    command
        ->add_option("--grant", options->role,
                     "a role that may use the schema and own nothing, such as the service's own")
        ->check(not_empty());
    command->add_flag("--adopt", options->adopts, "a copy, or a restored database, is that service's from now on")
        ->needs(names);
    command->add_flag("--topics", options->topics,
                      "also make the service's topics in Kafka that are missing, as SKALD_KAFKA_PARTITIONS, "
                      "SKALD_KAFKA_REPLICAS and SKALD_KAFKA_MIN_INSYNC say");
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [options, &out] { return migrate(*options, out); }; });
}

}  // namespace skald::tools
