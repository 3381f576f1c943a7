#include "worker/stored_check.hpp"

#include "admin/saga_versions.hpp"
#include "admin/stored_sagas.hpp"
#include "core/text.hpp"
#include "postgres/conninfo.hpp"
#include "postgres/faults.hpp"
#include "postgres/migrate.hpp"
#include "worker/service_parts.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>
#include <pqxx/except>

#include <cstdio>
#include <utility>

namespace skald::worker_detail {
namespace {

std::vector<std::pair<std::string, int>> versions_of(runtime::registry const& steps)
{
    std::vector<std::pair<std::string, int>> all;
    steps.for_each([&](auto const& definition, auto const&, runtime::registered_step const& one) {
        if (!one.handles) all.emplace_back(definition, one.version);
    });
    return all;
}

// Every finding is a line of the log; those that are not to be put up with are returned as one text.
std::string log_findings(admin::stored_findings const& found, std::string const& setting, core::logger& log)
{
    std::string refused;
    auto const refuse = [&refused](std::string const& what) { refused += (refused.empty() ? "" : "; ") + what; };
    for (auto const& one : found.missing) {
        auto const text = admin::in_words(one);
        log.warning("stored.step_missing", {{"definition", one.definition},
                                            {"version", one.version},
                                            {"step", one.step},
                                            {"count", one.count},
                                            {"key", one.key},
                                            {"error", text}});
        // While a newer version is being deployed, an older process may start again.
        if (!one.is_from_future && setting != "warn") refuse(text);
    }
    for (auto const& one : found.unreadable) {
        auto const text = admin::in_words(one);
        log.warning("stored.unreadable", {{"definition", one.definition},
                                          {"version", one.version},
                                          {"step", one.step},
                                          {"count", one.count},
                                          {"key", one.key},
                                          {"error", text}});
        if (setting == "refuse") refuse(text);
    }
    return refused;
}

std::string text_of(admin::stored_findings const& found, std::string const& where)
{
    std::string text;
    for (auto const& one : found.missing) text += admin::in_words(one) + '\n';
    for (auto const& one : found.unreadable) text += admin::in_words(one) + '\n';
    if (found.read + found.apart == 0)
        text += fmt::format("nothing was read: {} has no data under way that a step of this program would read", where);
    else {
        if (text.empty()) text = "this process can run all of it\n";
        text += fmt::format("{} sagas and messages under way were read", found.read);
    }
    if (found.apart > 0) text += fmt::format("; {} have their data elsewhere, and were not", found.apart);
    return text +
           ". What waits in a broker's queue, sagas of other homes, and what other services' steps read are not known "
           "here.\n";
}

// As `skald` says it. To be called in a catch block.
std::string why_not_examined(std::string const& url, std::exception const& error)
{
    std::string const what{"the database could not be examined: "}, all{error.what()};
    if (dynamic_cast<pqxx::broken_connection const*>(&error) != nullptr)
        return what + core::in_one_line(postgres::why_not_connected(url, all));
    auto const said = all.substr(0, all.find('\n'));  // further lines are about the query
    if (postgres::says_blocked())
        return what +
               "another session holds a lock on what it needs; `skald doctor` says which, if it still does. Give it "
               "again (" +
               said + ')';
    if (dynamic_cast<pqxx::insufficient_privilege const*>(&error) != nullptr)
        return what + said + " (`skald migrate --grant ROLE` grants what a service needs)";
    return what + said;
}

}  // namespace

void check_stored_at_start(config const& settings, std::string const& service, runtime::registry const& steps,
                           postgres::connection_options const& database, core::logger& log)
{
    std::string refused;
    try {
        postgres::connection c{database};
        if (settings.start_check != "off") {
            auto const found = admin::check_stored(c, service, steps, admin::stored_extent::a_part);
            refused = log_findings(found, settings.start_check, log);
            if (!found.is_all)
                log.info("stored.partly_checked",
                         {{"sagas", found.plans},
                          {"hint", "more are under way; run this program with --check-stored to look at all of them"}});
            if (refused.empty()) admin::record_unreadable(c, found.unreadable);
        }
        if (refused.empty()) admin::record_versions(c, versions_of(steps));
    }
    catch (pqxx::sql_error const& error) {
        log.warning("stored.not_checked", {{"error", core::in_one_line(error.what())}});
    }
    if (!refused.empty())
        throw configuration_error{refused + " (SKALD_START_CHECK=warn starts the service all the same)"};
}

char const* const stored_check_help =
    "\n  --check-stored                       read all sagas and messages under way in the service's database, and "
    "say\n"
    "                                       which of them this program can't run; nothing is changed\n"
    "  --json                               with it: print JSON\n";

std::optional<stored_command> take_stored_check(std::vector<std::string>& arguments)
{
    if (std::erase(arguments, "--check-stored") == 0) return {};
    return stored_command{std::erase(arguments, "--json") > 0};
}

int run_stored_check(stored_command const& command, service& of, config const& settings)
try {
    auto& parts = of.parts();
    parts.check_complete();
    runtime::registry steps;
    for (auto const& one : parts.steps) steps.add(one.definition, one.name, one.hosted);
    postgres::connection c{{.url = settings.database_url,
                            .application_name = "skald/" + parts.name + "/check-stored",
                            .lock_timeout = settings.lock_timeout,
                            .statement_timeout = settings.statement_timeout,
                            .commit_timeout = settings.commit_timeout}};
    auto const found = admin::check_stored(c, parts.name, steps, admin::stored_extent::all);
    auto const text = command.as_json
                          ? admin::to_json(found).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n'
                          : text_of(found, postgres::which_database(c.raw()));
    std::fputs(text.c_str(), stdout);
    return found.is_well() ? 0 : 1;
}
catch (pqxx::failure const& error) {
    throw stored_not_examined{why_not_examined(settings.database_url, error)};
}

}  // namespace skald::worker_detail
