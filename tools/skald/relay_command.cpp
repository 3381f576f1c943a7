// `skald relay`: the relay of an outbox, without a service around it.
#include "commands.hpp"
#include "database.hpp"
#include "kafka_commands.hpp"

#include "core/log.hpp"
#include "postgres/migrate.hpp"
#include "postgres/postgres_outbox.hpp"
#include "rabbitmq/administration.hpp"
#include "rabbitmq/connection.hpp"
#include "runtime/publish_loop.hpp"
#include "runtime/table_source.hpp"
#include "skald_operator_queries.hpp"
#include "worker/signals.hpp"
#include "worker/signing_keys.hpp"
#include "worker/transports.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>
#include <skald/kafka.hpp>

#include <pqxx/except>

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <thread>

namespace skald::tools {
namespace {

std::int64_t unsent(config const& settings)
{
    return connect(settings, "relay")
        .run(std::string{operator_queries::outbox_unsent})[0]["messages"]
        .as<std::int64_t>();
}

// Some statements can't be prepared, while the schema is an older one, or one of its tables is locked.
postgres::connection ask_at_start(postgres::connection_options options)
{
    options.prepares_statements = false;
    return postgres::connection{options};
}

// What a worker refuses at its start, a relay refuses too: from a copy of the database it would send once more what was
// sent before, and another system's broker would take its messages, which are lost here then.
// `database` is shared with the connections that send, so that they refuse whatever takes the place of this one.
void refuse_others(config const& settings, postgres::connection_options const& database)
{
    auto c = ask_at_start(database);
    postgres::require_schema(c.raw());
    auto const owner = postgres::owner_of(c.raw());
    if (owner.service.empty()) return;                                                // no worker has ever run here
    if (owner.is_copy) postgres::own_database(settings.database_url, owner.service);  // throws, with what to do
    if (worker_detail::has_no_broker(settings)) return;
    if (!worker_detail::uses_rabbitmq(settings)) {
        if (auto const why = foreign_in_kafka(settings, owner); !why.empty()) throw configuration_error{why};
        return;
    }
    auto const seen = rabbitmq::inspect(broker_url(settings), owner.service, owner.database, settings.declare);
    if (!seen.mismatch.empty()) throw configuration_error{seen.mismatch};
}

detail::transport_maker kafka_if_built()
{
#ifdef SKALD_HAS_KAFKA
    return kafka();
#else
    return {};
#endif
}

// Whose database it is; empty if no worker has ever run here.
std::string owner_name(config const& settings)
{
    auto c = ask_at_start(database_options(settings, "relay"));
    postgres::require_schema(c.raw());
    return postgres::owner_of(c.raw()).service;
}

// False if it was told to stop before the database and the broker could be asked.
bool wait_and_refuse_others(config const& settings, postgres::connection_options const& database,
                            worker_detail::signals const& signals, core::logger& log)
{
    for (std::string told, reason;; told = reason) {
        try {
            refuse_others(settings, database);
            if (!told.empty()) log.info("relay.available", {{"source", "table"}});
            return true;
        }
        catch (pqxx::broken_connection const& error) {
            reason = error.what();
        }
        catch (postgres::schema_behind const& error) {
            reason = error.what();
        }
        catch (postgres::schema_missing const& error) {  // its service may migrate it, or another process
            reason = error.what();
        }
        catch (rabbitmq::connection_lost const& error) {
            reason = error.what();
        }
        catch (kafka_away const& error) {
            reason = error.what();
        }
        if (reason != told) log.warning("relay.waiting", {{"source", "table"}, {"reason", reason}});
        if (signals.wait(std::chrono::seconds{1})) return false;
    }
}

// As the workers of that service log.
core::filtering_logger log_of(std::string const& service, config const& settings)
{
    return {std::make_shared<core::stderr_logger>(service.empty() ? "relay" : service,
                                                  core::log_format_of(settings.log_format)),
            core::parse_severity(settings.log_level)};
}

// Moves what is due, until nothing is or a signal comes.
std::size_t drain(runtime::publish_loop& relay, runtime::stop_flag& stop, worker_detail::signals const& signals)
{
    auto moving = std::async(std::launch::async, [&] { return relay.drain(); });
    while (moving.wait_for(std::chrono::seconds{0}) != std::future_status::ready)
        if (signals.wait(std::chrono::milliseconds{20})) stop.stop();
    return moving.get();
}

int relay(bool until_empty, output const& out)
{
    auto const settings = config::from_environment();
    worker_detail::signals const signals;
    auto const keys = worker_detail::read_signing_keys(settings);
    auto nobodys_log = log_of({}, settings);  // until the database says whose it is
    auto const database = database_options(settings, "relay");
    if (!until_empty && !wait_and_refuse_others(settings, database, signals, nobodys_log)) return 0;
    auto const owner = owner_name(settings);
    auto log = log_of(owner, settings);
    auto const transport =
        worker_detail::make_transport(owner, "skald/relay", settings, database, log, kafka_if_built());
    auto const publisher = transport->open_publisher();

    auto const mark = std::make_shared<postgres::low_water>();
    postgres::postgres_outbox outbox{database, mark};
    postgres::postgres_outbox other{database, mark};

    runtime::table_source table{settings.relay_poll, {outbox, other}};
    runtime::stop_flag stop;
    if (keys) worker_detail::log_signing(settings, *keys, log);
    runtime::publish_loop relay{{.batch_max = settings.relay_batch_max, .sign_with = keys ? &*keys : nullptr},
                                table,
                                *publisher,
                                stop,
                                log,
                                std::mt19937_64{std::random_device{}()}};

    if (until_empty) {
        if (!publisher->available()) throw std::runtime_error{"the broker is away: " + publisher->last_error()};
        refuse_others(settings, database);
        auto const moved = drain(relay, stop, signals);
        auto const left = unsent(settings);
        auto text = std::to_string(moved) + " messages moved";
        if (left > 0 && stop.stopped()) text += ", " + std::to_string(left) + " are left: it was stopped";
        else if (left > 0) text += ", " + std::to_string(left) + " could not be sent: `skald outbox status` says why";
        out.tell(text, {{"moved", moved}, {"unsent", left}});
        return left > 0 ? 1 : 0;
    }
    std::jthread const moving{[&] { relay.run(); }};
    while (!signals.wait(std::chrono::minutes{1})) continue;
    stop.stop();
    table.wake();
    return 0;
}

}  // namespace

void add_relay_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand("relay", "move the outbox to the broker, until SIGTERM");
    auto const until_empty = std::make_shared<bool>();
    command->add_flag("--until-empty", *until_empty, "stop when nothing is due any more");
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [until_empty, &out] { return relay(*until_empty, out); }; });
}

}  // namespace skald::tools
