// `skald console`: sagas in a browser.
#include "commands.hpp"

#include "console/server.hpp"
#include "console/settings.hpp"
#include "core/regular_file.hpp"

#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include <pwd.h>
#include <unistd.h>

namespace skald::tools {
namespace {

struct console_options
{
    std::vector<std::string> services, operating;
    std::string token_file;
    console::settings given;
};

// Who runs this console: what is done here without a token is done by them.
std::string local_user()
{
    auto const* const entry = ::getpwuid(::geteuid());
    return entry == nullptr ? "local" : entry->pw_name;
}

std::string read_tokens(std::string const& file)
try {
    return core::read_regular_file(file);
}
catch (core::file_not_read const& error) {
    throw configuration_error{fmt::format("--token-file {} {}", file, error.what())};
}

int run_console(console_options const& options, output const& out)
{
    auto given = options.given;
    for (auto const& one : options.services) given.services.push_back(console::read_address("--service", one));
    for (auto const& one : options.operating) given.operating.push_back(console::read_address("--operate", one));
    if (!options.token_file.empty()) given.tokens = read_tokens(options.token_file);
    if (!options.token_file.empty() && given.tokens.empty()) throw configuration_error{"--token-file is empty"};
    given.local_user = local_user();
    console::serve(given, [&](std::string const& address) {
        out.tell("the console is at " + address, {{"address", address}});
        std::fflush(stdout);
    });
    return 0;
}

}  // namespace

void add_console_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand("console", "sagas in a browser: what they do, and what holds them up");
    auto const options = std::make_shared<console_options>();
    command
        ->add_option("--service", options->services,
                     "NAME=FILE: a service, and a file that holds the address of its database, with a role that reads")
        ->required();
    command->add_option("--operate", options->operating,
                        "NAME=FILE: the same with a role that may repair; without it, that service is only shown");
    command->add_option("--listen", options->given.listen, "HOST:PORT; port 0 picks a free one")->capture_default_str();
    command->add_option("--token-file", options->token_file,
                        "a file with a line `viewer NAME TOKEN` or `operator NAME TOKEN` for each person");
    command->add_option("--user-header", options->given.user_header,
                        "the header in which a proxy says who is there; only it must be able to reach the console");
    command->add_option("--operator", options->given.operators, "one of those whom the header names, who may act");
    command->add_option("--threads", options->given.threads, "requests at a time")
        ->check(CLI::Range(2, 256))
        ->capture_default_str();
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [options, &out] { return run_console(*options, out); }; });
}

}  // namespace skald::tools
