// `skald migrate`: brings the schema up to date.
#include "commands.hpp"

#include "postgres/migrate.hpp"

#include <skald/config.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

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

int migrate(std::string const& service, std::string const& role, bool adopts, output const& out)
{
    auto const settings = config::from_environment();
    if (adopts) postgres::adopt(settings.database_url, service);
    auto const applied = migrate_patiently(settings.database_url, service);

    std::string sentence = adopts ? "the database is that of " + service + " from now on; " : "";
    sentence += applied.empty() ? "the schema is up to date" : "applied:";
    for (auto const& name : applied) sentence += ' ' + name;
    if (!role.empty()) {
        postgres::grant(settings.database_url, role);
        sentence += "; " + role + " may use it";
    }
    out.tell(sentence, {{"adopted", adopts}, {"applied", applied}, {"granted", role}});
    return 0;
}

}  // namespace

void add_migrate_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand("migrate", "bring the database's schema `skald` up to date");
    auto const service = std::make_shared<std::string>();
    auto* const names = command->add_option("--service", *service, "the service that owns the database");
    names->check(not_empty());
    auto const role = std::make_shared<std::string>();
    command->add_option("--grant", *role, "a role that may use the schema and own nothing, such as the service's own")
        ->check(not_empty());
    auto const adopts = std::make_shared<bool>();
    command->add_flag("--adopt", *adopts, "a copy, or a restored database, is that service's from now on")
        ->needs(names);
    out.add_flag(*command);
    command->callback([=, &out, &chosen] {
        chosen = [service, role, adopts, &out] { return migrate(*service, *role, *adopts, out); };
    });
}

}  // namespace skald::tools
