// `skald`: the operator's command line. Exit codes: 0 done, 1 refused or failed, 2 wrong usage or settings.
#include "commands.hpp"
#include "database.hpp"

#include "core/text.hpp"
#include "postgres/conninfo.hpp"
#include "postgres/faults.hpp"
#include "rabbitmq/errors.hpp"

#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <pqxx/except>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace {

// Otherwise a database connection could get the descriptor number of a standard stream that the caller closed, and
// output would go into it. The replacement is not writable, just like the closed stream.
void hold_standard_streams()
{
    for (int const stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::fcntl(stream, F_GETFD) == -1) static_cast<void>(::open("/dev/null", O_RDONLY));
}

// A caller that reads the output must not mistake a part of it for the whole.
int with_output_written(int code)
{
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    std::string const done = code == 0 ? " The command itself was carried out" : "";
    skald::tools::complain("the output could not be written: is the disk full, or stdout closed?" + done);
    return code == 0 ? 1 : code;
}

// The first word that is not a command although one is needed, such as `nope` in `skald saga nope`; empty if that is
// not the error.
std::string complaint_about_command(CLI::App const& app)
{
    CLI::App const* innermost = &app;
    std::string name = "skald";
    while (!innermost->get_subcommands().empty()) {
        innermost = innermost->get_subcommands().front();
        name += ' ' + innermost->get_name();
    }
    auto const left = innermost->remaining();
    auto const unknown = std::ranges::find_if(left, [](auto const& word) { return !word.starts_with('-'); });
    if (innermost->get_require_subcommand_min() == 0 || unknown == left.end()) return {};
    return fmt::format("`{}` is no command of `{}`; `{} --help` lists them", *unknown, name, name);
}

int refuse(CLI::App const& app, CLI::ParseError const& error, skald::tools::output const& out)
{
    if (dynamic_cast<CLI::RequiredError const*>(&error) != nullptr)
        if (auto const complaint = complaint_about_command(app); !complaint.empty()) return out.fail(complaint, 2);
    if (out.json && error.get_exit_code() != 0) return out.fail(error.what(), 2);
    return app.exit(error) == 0 ? 0 : 2;
}

// A database has no place for any other text. Empty: each of them is.
std::string why_not_text(std::span<char const* const> words)
{
    for (std::string_view const word : words)
        if (!skald::core::is_storable_text(word))
            return fmt::format("'{}' is not UTF-8", skald::core::visible_text(word));
    return {};
}

// libpq looks for a server that takes writes; with target_session_attrs in the URL, another one may be asked to write.
bool says_read_only(std::string_view what)
{
    return what.find("session is read-only") != std::string_view::npos ||
           what.find("during recovery") != std::string_view::npos ||
           what.find("in a read-only transaction") != std::string_view::npos;
}

constexpr std::string_view read_only =
    "the database takes no writes: it is a standby, or default_transaction_read_only is on there. Name the primary in "
    "DATABASE_URL; or all of its servers, postgresql://A,B/NAME, of which the one that takes writes is used";

// PostgreSQL's messages have further lines, about functions that an operator does not know.
std::string without_context(std::string_view what)
{
    return std::string{what.substr(0, what.find('\n'))};
}

bool is_set(std::string const& variable)
{
    return std::getenv(variable.c_str()) != nullptr || std::getenv((variable + "_FILE").c_str()) != nullptr;
}

// In reverse, as CLI11 wants them. The empty value of `--scope=` becomes a word of its own, since CLI11 would take the
// next one for it.
std::vector<std::string> arguments_of(std::span<char const* const> words)
{
    std::vector<std::string> all;
    bool are_options = true;
    for (std::string_view word : words.subspan(1)) {
        if (word == "--") are_options = false;
        bool const is_empty = are_options && word.starts_with("--") && word.find('=') == word.size() - 1;
        if (is_empty) word.remove_suffix(1);
        all.emplace_back(word);
        if (is_empty) all.emplace_back();
    }
    std::ranges::reverse(all);
    return all;
}

int run(skald::tools::choice const& chosen, skald::tools::output const& out)
try {
    return chosen();
}
catch (skald::configuration_error const& error) {
    return out.fail(error.what(), 2);
}
catch (pqxx::insufficient_privilege const& error) {
    return out.fail(without_context(error.what()) + " (`skald migrate --grant ROLE` grants what a service needs)", 1);
}
catch (skald::tools::may_be_done const& error) {
    return out.doubt(fmt::format("it may have been done, since its connection broke on the way: {}. Give it again: "
                                 "what was done is not done twice",
                                 without_context(error.what())));
}
catch (pqxx::in_doubt_error const&) {
    return out.doubt("it may have been done, since its connection broke in COMMIT. Give it again: what was done is not "
                     "done twice");
}
catch (pqxx::broken_connection const& error) {
    if (says_read_only(error.what())) return out.fail(read_only, 1);
    return out.fail(is_set("DATABASE_URL") ? error.what() : skald::postgres::why_not_connected("", error.what()), 1);
}
catch (skald::rabbitmq::connection_lost const& error) {
    return out.fail(error.what() + std::string{is_set("AMQP_URL") ? " (AMQP_URL names the broker)"
                                                                  : " (AMQP_URL is not set: name the broker in it)"},
                    1);
}
catch (std::exception const& error) {
    if (skald::postgres::says_blocked())
        return out.fail(
            "rolled back: another session holds a lock on what it needs; `skald doctor` says which, if it still does. "
            "Give it again (" +
                without_context(error.what()) + ')',
            1);
    return out.fail(says_read_only(error.what()) ? read_only : error.what(), 1);
}

}  // namespace

int main(int argc, char** argv)
{
    hold_standard_streams();
    CLI::App app{"Operates Skald's tables and outbox. DATABASE_URL (or libpq's PG* variables) names the database,\n"
                 "AMQP_URL the broker; the SKALD_* variables are those of the services.",
                 "skald"};
    app.require_subcommand(1);
    app.set_version_flag("--version", SKALD_VERSION);

    skald::tools::output out;
    skald::tools::choice chosen;
    skald::tools::add_new_command(app, out, chosen);
    skald::tools::add_saga_commands(app, out, chosen);
    skald::tools::add_started_commands(app, out, chosen);
    skald::tools::add_parked_commands(app, out, chosen);
    skald::tools::add_migrate_command(app, out, chosen);
    skald::tools::add_declare_command(app, out, chosen);
    skald::tools::add_relay_command(app, out, chosen);
    skald::tools::add_purge_command(app, out, chosen);
    skald::tools::add_outbox_commands(app, out, chosen);
    skald::tools::add_doctor_command(app, out, chosen);
    skald::tools::add_audit_command(app, out, chosen);
    skald::tools::add_conform_command(app, out, chosen);
    skald::tools::add_duplicate_command(app, out, chosen);
    skald::tools::add_console_command(app, out, chosen);

    std::span<char const* const> const words{argv, static_cast<std::size_t>(argc)};
    bool const is_json = std::ranges::find(words, std::string_view{"--json"}) != words.end();
    skald::tools::output const early{is_json};  // before it is known what --json is an option of
    if (auto const why = why_not_text(words); !why.empty()) return with_output_written(early.fail(why, 2));
    try {
        app.parse(arguments_of(words));
    }
    catch (CLI::ParseError const& error) {
        return with_output_written(refuse(app, error, early));
    }
    return with_output_written(run(chosen, out));
}
