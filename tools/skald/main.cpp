// `skald`: the operator's command line. Exit codes: 0 done, 1 refused or failed, 2 wrong usage or settings.
#include "commands.hpp"

#include <skald/errors.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>

int main(int argc, char** argv)
{
    CLI::App app{"Operates Skald's tables and outbox. DATABASE_URL (or libpq's PG* variables) names the database,\n"
                 "AMQP_URL the broker; the SKALD_* variables are those of the services."};
    app.require_subcommand(1);
    app.set_version_flag("--version", SKALD_VERSION);

    skald::tools::output out;
    auto const add_json = [&out](CLI::App& command) { out.add_flag(command); };
    skald::tools::choice chosen;
    skald::tools::add_saga_commands(app, out, chosen);
    skald::tools::add_parked_commands(app, out, chosen);

    std::string service;
    auto* const migrate = app.add_subcommand("migrate", "bring the database's schema `skald` up to date");
    migrate->add_option("--service", service, "the service that owns the database");
    add_json(*migrate);

    bool until_empty = false;
    auto* const relay = app.add_subcommand("relay", "move the outbox to the broker, until SIGTERM");
    relay->add_flag("--until-empty", until_empty, "stop when nothing is due any more");
    add_json(*relay);

    skald::tools::purge_options to_purge;
    auto* const purge = app.add_subcommand("purge", "delete the records of sagas that ended long ago");
    purge->add_option("--older-than", to_purge.older_than, "days since their end [SKALD_RETENTION_DAYS, or 30]");
    purge->add_flag("--dry-run", to_purge.dry_run, "only say what there is");
    purge->add_option("--batch", to_purge.batch_max, "sagas in one transaction [500]")->check(CLI::Range(1, 1000));
    add_json(*purge);

    skald::tools::outbox_limits limits;
    auto* const outbox = app.add_subcommand("outbox", "the messages that wait for the broker");
    outbox->require_subcommand(1);
    auto* const outbox_status = outbox->add_subcommand("status", "how many, for how long, for whom, and why");
    outbox_status->add_option("--warn-rows", limits.rows, "exit with 1 where more than that wait");
    outbox_status->add_option("--warn-age", limits.age_seconds,
                              "exit with 1 where one waits for more than that many seconds");
    add_json(*outbox_status);

    auto* const doctor = app.add_subcommand("doctor", "examine the database and the broker; exit with 1 for a problem");
    add_json(*doctor);

    skald::tools::duplicate_options to_duplicate;
    auto* const duplicate = app.add_subcommand(
        "duplicate",
        "send every message to some services again and again, until SIGTERM: for staging systems, never production");
    skald::tools::add_duplicate_options(*duplicate, to_duplicate);
    add_json(*duplicate);

    auto* const bench = app.add_subcommand("bench", "measure Skald on this machine; `skald bench --help` lists what");
    bench->allow_extras()->prefix_command()->set_help_flag();

    try {
        app.parse(argc, argv);
    }
    catch (CLI::ParseError const& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    try {
        if (chosen) return chosen();
        if (migrate->parsed()) return skald::tools::migrate(service, out);
        if (purge->parsed()) return skald::tools::purge(to_purge, out);
        if (outbox_status->parsed()) return skald::tools::outbox_status(limits, out);
        if (bench->parsed()) skald::tools::become_bench(bench->remaining());
        if (duplicate->parsed()) return skald::tools::duplicate(to_duplicate, out);
        if (doctor->parsed()) return skald::tools::doctor(out);
        return skald::tools::relay(until_empty, out);
    }
    catch (skald::configuration_error const& error) {
        std::fprintf(stderr, "skald: %s\n", error.what());
        return 2;
    }
    catch (std::exception const& error) {
        std::fprintf(stderr, "skald: %s\n", error.what());
        return 1;
    }
}
