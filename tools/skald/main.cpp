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
    skald::tools::choice chosen;
    skald::tools::add_saga_commands(app, out, chosen);
    skald::tools::add_parked_commands(app, out, chosen);
    skald::tools::add_migrate_command(app, out, chosen);
    skald::tools::add_declare_command(app, out, chosen);
    skald::tools::add_relay_command(app, out, chosen);
    skald::tools::add_purge_command(app, out, chosen);
    skald::tools::add_outbox_commands(app, out, chosen);
    skald::tools::add_doctor_command(app, out, chosen);
    skald::tools::add_duplicate_command(app, out, chosen);

    try {
        app.parse(argc, argv);
    }
    catch (CLI::ParseError const& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    try {
        return chosen();
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
