#include "worker/rehearsal_command.hpp"

#include "core/regular_file.hpp"
#include "runtime/registry.hpp"
#include "worker/body_stores.hpp"
#include "worker/service_parts.hpp"
#include "worker/settings.hpp"

#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace skald::worker_detail {
namespace {

void refuse_without_rehearsal(std::vector<std::string> const& arguments)
{
    for (auto const& one : arguments)
        for (std::string const name : {"--scope", "--data", "--json"})
            if (one == name || one.starts_with(name + '='))
                throw configuration_error{name + " goes with --rehearse KEY:STEP, which is missing"};
}

std::string read_data(std::string const& file)
try {
    auto data = core::read_regular_file(file);
    while (data.ends_with('\n')) data.pop_back();  // an editor's; a step's data has none
    detail::parse_checked(data);
    return data;
}
catch (data_error const& error) {
    throw configuration_error{"--data " + file + " is no JSON that a saga's data may be: " + error.what()};
}
catch (core::file_not_read const& error) {
    throw configuration_error{"--data " + file + ' ' + error.what()};
}

}  // namespace

char const* const rehearsal_help =
    "\n  --rehearse KEY:STEP                  run one step as it would run now, roll it back, and print what it would\n"
    "                                       do; KEY:STEP.compensate for its compensation. What a step does outside\n"
    "                                       its transaction (a call of another system) really happens.\n"
    "  --scope SCOPE, --data FILE, --json   with it: the saga's scope; data for the step; print JSON\n";

std::optional<rehearsal_command> take_rehearsal(std::vector<std::string>& arguments)
{
    auto const text = take_argument(arguments, "--rehearse");
    if (!text) {
        refuse_without_rehearsal(arguments);
        return {};
    }
    auto const key = core::parse_derived_key(*text);
    if (!key || !core::is_key(key->key))
        throw configuration_error{"--rehearse takes KEY:STEP or KEY:STEP.compensate, and not '" + *text + "'"};
    rehearsal_command command{.what = {.key = *key}};
    command.what.scope = take_argument(arguments, "--scope").value_or("");
    if (!core::is_scope(command.what.scope)) throw configuration_error{"--scope is at most 64 bytes of UTF-8"};
    if (auto const file = take_argument(arguments, "--data")) command.what.data = read_data(*file);
    command.as_json = std::erase(arguments, "--json") > 0;
    return command;
}

nlohmann::json rehearse(rehearsal::wanted const& what, service& of, config const& settings)
{
    auto& parts = of.parts();
    runtime::registry steps{settings.deploy_wait};
    std::vector<rehearsal::hosted_plan> plans;
    for (auto const& one : parts.steps) steps.add(one.definition, one.name, one.hosted);
    for (auto const& one : parts.steps)  // of several versions, the newest
        if (one.hosted.version == steps.find(one.definition, one.name)->version)
            plans.push_back({one.definition, one.hosted.version, one.plan, one.name});
    auto bodies = make_body_store(parts.name, "rehearsal", settings, parts.bodies);
    return rehearsal::rehearse(what, parts.name,
                               {.url = settings.database_url,
                                .application_name = "skald/" + parts.name + "/rehearsal",
                                .statement_timeout = settings.statement_timeout,
                                .commit_timeout = settings.commit_timeout,
                                .bodies = std::move(bodies)},
                               body_rules_of(parts.name, settings), steps, plans);
}

int run_rehearsal(rehearsal_command const& command, service& of, config const& settings)
{
    auto const report = rehearse(command.what, of, settings);
    auto const text = command.as_json ? report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n'
                                      : rehearsal::in_words(report);
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
        throw std::runtime_error{std::string{"the report can't be written: "} + std::strerror(errno)};
    return report["ends"] == "done" || report["ends"] == "started" ? 0 : 1;
}

}  // namespace skald::worker_detail
