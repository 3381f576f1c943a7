// `skald migrate`: brings the schema up to date, and makes topics.
#include "commands.hpp"
#include "database.hpp"
#include "doctor_database.hpp"
#include "kafka_commands.hpp"

#include "core/text.hpp"
#include "postgres/migrate.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <exception>
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

// Told also where what comes after it fails.
struct what_was_done
{
    std::vector<std::string> parts;
    nlohmann::json object{{"adopted", false}, {"applied", nlohmann::json::array()}, {"granted", ""}};
    bool has_changed{};

    int tell(output const& out, int code) const
    {
        out.tell(fmt::format("{}", fmt::join(parts, "; ")), object);
        return code;
    }
};

void carry_out(migrate_options const& options, config const& settings, what_was_done& did)
{
    auto const& [service, role, adopts, topics] = options;
    if (adopts) {
        postgres::adopt(settings.database_url, service);
        did.parts.push_back("the database is that of " + service + " from now on");
        did.object["adopted"] = did.has_changed = true;
    }
    auto const applied = migrate_patiently(settings.database_url, service);
    did.parts.push_back(applied.empty() ? "the schema is up to date"
                                        : fmt::format("applied: {}", fmt::join(applied, " ")));
    did.object["applied"] = applied;
    if (!applied.empty()) did.has_changed = true;
    if (!role.empty()) {
        postgres::grant(settings.database_url, role);
        did.parts.push_back(role + " may use it");
        did.object["granted"] = role;
        did.has_changed = true;
    }
    if (topics) {
        auto const names = make_topics(settings, service);
        did.parts.push_back(fmt::format("the topics {} are there", fmt::join(names, ", ")));
        did.object["topics"] = names;
    }
}

int migrate(migrate_options const& options, output const& out)
{
    auto const settings = config::from_environment();
    if (options.topics && settings.transport != "kafka")
        throw configuration_error{"--topics is of SKALD_TRANSPORT=kafka; RabbitMQ's queues are declared by `skald "
                                  "declare`, and without a broker by the service itself"};
    if (options.service.empty()) postgres::require_owner(settings.database_url);
    what_was_done did;
    try {
        carry_out(options, settings, did);
    }
    catch (std::exception const& error) {
        if (!did.has_changed) throw;
        auto const why = core::in_one_line(error.what());
        bool const is_unknown = dynamic_cast<pqxx::in_doubt_error const*>(&error) != nullptr;
        did.parts.push_back((is_unknown ? "then the connection broke in COMMIT, and the next may have been done: "
                                        : "then it failed: ") +
                            why);
        did.object[is_unknown ? "unknown" : "failed"] = why;
        return did.tell(out, dynamic_cast<configuration_error const*>(&error) != nullptr ? 2 : 1);
    }
    return did.tell(out, 0);
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
