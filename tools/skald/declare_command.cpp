// `skald declare`: declares what a service needs on the broker. For an operator with that permission, and a service
// that runs with SKALD_DECLARE=off.
#include "commands.hpp"
#include "database.hpp"
#include "kafka_commands.hpp"

#include "core/identity.hpp"
#include "core/uuid.hpp"
#include "postgres/migrate.hpp"
#include "rabbitmq/administration.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace skald::tools {
namespace {

// NAME, or NAME=EXCHANGE:ROUTING_KEY.
std::vector<ports::handler_queue> read_handlers(std::vector<std::string> const& all)
{
    std::vector<ports::handler_queue> handlers;
    for (auto const& text : all) {
        auto const equals = text.find('=');
        auto const name = text.substr(0, equals);
        if (!core::is_name(name))
            throw configuration_error{fmt::format("--handler {}: '{}' is not a handler's name", text, name)};
        auto it = std::ranges::find(handlers, name, &ports::handler_queue::handler);
        if (it == handlers.end()) it = handlers.insert(it, ports::handler_queue{name});
        if (equals == std::string::npos) continue;
        auto const binding = text.substr(equals + 1);
        auto const colon = binding.find(':');
        if (colon == std::string::npos || colon == 0)
            throw configuration_error{
                fmt::format("--handler {}: it is NAME, or NAME=EXCHANGE:ROUTING_KEY for each binding", text)};
        it->bindings.push_back({.routing_key = binding.substr(colon + 1), .exchange = binding.substr(0, colon)});
        auto const& made = it->bindings.back();
        if (made.exchange == "skald" && made.routing_key.empty())
            throw configuration_error{fmt::format(
                "--handler {}: what goes through Skald's own exchange has a name: say which, as {}=skald:NAME", text,
                name)};
    }
    return handlers;
}

// The topics are the service's, whatever its database: only if that of DATABASE_URL answers, and is another service's,
// is one of the two names wrong.
void refuse_anothers_database(config const& settings, std::string const& service)
{
    std::string owner;
    try {
        owner = postgres::owner_of(connect(settings, "declare").raw()).service;
    }
    catch (std::exception const&) {
        return;
    }
    if (!owner.empty() && owner != service)
        throw configuration_error{fmt::format(
            "the database of DATABASE_URL belongs to the service {0}: say --service {0}, or name that of {1}", owner,
            service)};
}

int declare_topics(config const& settings, std::string const& service,
                   std::vector<ports::handler_queue> const& handlers, output const& out)
{
    refuse_anothers_database(settings, service);
    ports::subscriber who{service};
    who.handlers = handlers;
    auto const names = make_kafka_topics(settings, who);
    out.tell(fmt::format("the topics of {} are there: {}", service, fmt::join(names, ", ")),
             {{"service", service}, {"topics", names}});
    return 0;
}

int declare(std::string const& service, std::string database, std::vector<std::string> const& handlers,
            output const& out)
{
    auto const settings = config::from_environment();
    auto const named = read_handlers(handlers);
    if (settings.transport == "kafka") return declare_topics(settings, service, named, out);
    refuse_without_broker(settings, "declare");
    if (database.empty()) database = postgres::own_database(settings.database_url, service).database;
    if (!core::is_uuid(database))
        throw configuration_error{"--database is the `id` in the table skald.service of the service's database"};
    rabbitmq::provision(broker_url(settings), service, database, named);
    auto text = fmt::format("the exchanges and the queues of {} are declared, for the database {}", service, database);
    auto names = nlohmann::json::array();
    for (auto const& one : named) {
        names.push_back(one.handler);
        text += fmt::format("\n  message handler {}: its queue, with {} bindings to what others publish", one.handler,
                            one.bindings.size());
    }
    if (named.empty()) text += "; no queue of a message handler, for none was named with --handler";
    out.tell(text, {{"service", service}, {"database", database}, {"handlers", names}});
    return 0;
}

}  // namespace

void add_declare_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand("declare", "declare a service's exchanges and queues, or Kafka's "
                                                        "topics, and those of its message handlers: for a service "
                                                        "that runs with SKALD_DECLARE=off");
    auto const service = std::make_shared<std::string>();
    command->add_option("--service", *service, "the service")->required();
    auto const database = std::make_shared<std::string>();
    command->add_option("--database", *database,
                        "the `id` in skald.service of its database; without it, that of DATABASE_URL");
    auto const handlers = std::make_shared<std::vector<std::string>>();
    command
        ->add_option("--handler", *handlers,
                     "a message handler of the service: NAME, or NAME=EXCHANGE:ROUTING_KEY, once for each binding")
        ->allow_extra_args(false);
    out.add_flag(*command);
    command->callback([=, &out, &chosen] {
        chosen = [service, database, handlers, &out] { return declare(*service, *database, *handlers, out); };
    });
}

}  // namespace skald::tools
