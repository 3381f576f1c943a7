// `skald migrate`: the schema, brought up to date.
#include "commands.hpp"

#include "postgres/migrate.hpp"

#include <skald/config.hpp>

#include <CLI/CLI.hpp>

#include <memory>

namespace skald::tools {
namespace {

int migrate(std::string const& service, output const& out)
{
    auto const settings = config::from_environment(service.empty() ? "skald" : service);
    auto const applied = postgres::migrate(settings.database_url, service);

    std::string sentence = applied.empty() ? "the schema is up to date" : "applied:";
    for (auto const& name : applied) sentence += ' ' + name;
    out.tell(sentence, {{"applied", applied}});
    return 0;
}

}  // namespace

void add_migrate_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand("migrate", "bring the database's schema `skald` up to date");
    auto const service = std::make_shared<std::string>();
    command->add_option("--service", *service, "the service that owns the database");
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [service, &out] { return migrate(*service, out); }; });
}

}  // namespace skald::tools
