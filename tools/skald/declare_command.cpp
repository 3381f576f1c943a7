// `skald declare`: declares what a service needs on the broker. For an operator with that permission, and a service
// that runs with SKALD_DECLARE=off.
#include "commands.hpp"

#include "core/uuid.hpp"
#include "postgres/migrate.hpp"
#include "rabbitmq/administration.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>
#include <string>

namespace skald::tools {
namespace {

int declare(std::string const& service, std::string database, output const& out)
{
    auto const settings = config::from_environment();
    if (database.empty()) database = postgres::own_database(settings.database_url, service);
    if (!core::is_uuid(database))
        throw configuration_error{"--database is the `id` in the table skald.service of the service's database"};
    rabbitmq::provision(settings.amqp_url, service, database);
    out.tell(fmt::format("what {} needs is declared, for the database {}", service, database),
             {{"service", service}, {"database", database}});
    return 0;
}

}  // namespace

void add_declare_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand(
        "declare", "declare a service's exchanges and queues on the broker, if it runs with SKALD_DECLARE=off");
    auto const service = std::make_shared<std::string>();
    command->add_option("--service", *service, "the service")->required();
    auto const database = std::make_shared<std::string>();
    command->add_option("--database", *database,
                        "the `id` in skald.service of its database; without it, that of DATABASE_URL");
    out.add_flag(*command);
    command->callback(
        [=, &out, &chosen] { chosen = [service, database, &out] { return declare(*service, *database, out); }; });
}

}  // namespace skald::tools
