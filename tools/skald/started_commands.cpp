// `skald started list`, `skald saga resolve` and `skald saga signal`: steps that wait for a call, a signal or a time.
#include "started.hpp"

#include "admin/commands.hpp"
#include "admin/explanation.hpp"
#include "admin/started_steps.hpp"
#include "core/text.hpp"
#include "database.hpp"
#include "table.hpp"

#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace skald::tools {
namespace {

using nlohmann::json;

std::string when_due(json const& step)
{
    std::int64_t const in = step["due_in_seconds"];
    if (in >= 0) return "in " + admin::in_words(std::chrono::seconds{in});
    return admin::in_words(std::chrono::seconds{-in}) + " ago";
}

int list(admin::started_filter const& filter, output const& out)
{
    auto c = connect();
    auto const page = admin::list_started(c, filter);
    std::vector<std::vector<std::string>> rows{
        {"KEY", "SCOPE", "STEP", "STATUS", "SINCE", "WAITS FOR", "DUE", "OWNER", "ERROR"}};
    for (auto const& s : page["started"])
        rows.push_back({s["key"], s["scope"], s["step"], s["status"],
                        admin::in_words(std::chrono::seconds{s["age_seconds"].get<std::int64_t>()}), s["waits_for"],
                        when_due(s), s["owner"], s["error"]});
    auto text = rows.size() > 1 ? table(rows) : "no started step here matches";
    if (page["more"]) text += "\nthere are more: --limit";
    out.tell(text, page);
    return 0;
}

json read_json(std::string const& option, std::string const& text)
try {
    return detail::parse_checked(text);
}
catch (data_error const& error) {
    throw configuration_error{option + " is JSON: " + error.what()};
}

/// What the process that records the result says of it, if it says so within that time: only it knows the step's type.
json await_verdict(postgres::connection& c, admin::resolution const& what, json const& then,
                   std::chrono::seconds longest)
{
    auto const until = std::chrono::steady_clock::now() + longest;
    while (true) {
        auto verdict = admin::verdict_on(c, what, then);
        if (!verdict.is_null() || std::chrono::steady_clock::now() >= until) return verdict;
        std::this_thread::sleep_for(std::chrono::milliseconds{100});
    }
}

int resolve(admin::resolution const& what, std::chrono::seconds wait, output const& out)
{
    auto c = connect();
    c.run("BEGIN");  // as the row is when it gets the answer: it is locked from then on
    if (auto const refused = admin::resolve(c, what)) return out.refuse(core::visible_text(*refused));
    auto const then = admin::find_started(c, what.saga, what.step);
    change(c, [&] { return c.run("COMMIT"); });
    auto const name = fmt::format("{} of saga {}", core::visible_text(what.step), core::visible_text(what.saga.key));
    json verdict;
    std::string told = "its service goes on with it";
    try {
        if (what.result) verdict = await_verdict(c, what, then, wait);
    }
    catch (std::exception const& error) {  // the answer is there all the same
        told += fmt::format(" (what it says of the result is not known: {})", core::in_one_line(error.what()));
    }
    if (!verdict.is_null() && !verdict["is_recorded"])
        return out.refuse(fmt::format("the result of {} could not be recorded: {}. If it is wrong, say it again", name,
                                      core::visible_text(verdict["error"].get<std::string>())));
    if (!verdict.is_null()) told = "its service has recorded it";
    out.tell(fmt::format("{}: {}; {}", name, what.result ? "it happened" : "it did not happen", told),
             {{"resolved", what.result ? "happened" : "did-not-happen"}, {"recorded", !verdict.is_null()}});
    return 0;
}

int signal(core::saga_id const& saga, std::string const& step, json const& body, output const& out)
{
    auto c = connect();
    auto const became = change(c, [&] { return admin::signal(c, saga, step, body); });
    auto const key = core::visible_text(saga.key), name = core::visible_text(step);
    if (became == "no saga") return out.refuse(admin::not_started_here(c, saga));
    if (became == "no step") return out.refuse("saga " + key + " has no step " + name);
    if (became == "no wait")
        return out.refuse(name + " of saga " + key + " never waits for a signal: `skald saga show` has its steps");
    if (became == "late")
        return out.refuse(name + " of saga " + key + " has ended: nothing waits for a signal any more");
    if (became == "mismatch")
        return out.refuse("another signal for " + name + " of saga " + key + " was there before: the first counts");
    out.tell(became == "duplicate" ? "the same signal was there already: nothing is to be done"
             : became == "sent"
                 ? "sent to the service of " + name +
                       ", which alone knows whether it waits: if it never does, the signal is parked there"
                 : "kept for " + name + ": it goes on, or will when it waits, if that is what it waits for",
             {{"signal", became}});
    return 0;
}

void add_resolve(CLI::App& saga, output& out, choice& chosen)
{
    auto* const command = saga.add_subcommand(
        "resolve",
        "say what has become of a call that is in doubt: DATABASE_URL is that of the service which has the step");
    auto const what = std::make_shared<admin::resolution>();
    auto const said = std::make_shared<std::string>();
    auto const result = std::make_shared<std::string>();
    add_identity(*command, what->saga);
    command->add_option("step", what->step, "the step, with its .compensate if that is meant")->required();
    command->add_option("what", *said, "happened; or did-not-happen, and never will")
        ->required()
        ->check(CLI::IsMember({"happened", "did-not-happen"}));
    command->add_option("--result", *result,
                        "of what happened: what the other side answered, as the step's Result in JSON");
    auto const wait = std::make_shared<int>(5);
    command->add_option("--wait", *wait, "for how many seconds to wait for what its service says of the result")
        ->check(CLI::Range(0, 600))
        ->capture_default_str();
    add_reason(*command, what->reason, "how you know: it is kept")->required();
    command->add_option("--by", what->by, "who you are, for the audit; the database's user is recorded anyway");
    out.add_flag(*command);
    command->callback([=, &out, &chosen] {
        chosen = [=, &out] {
            bool const happened = *said == "happened";
            if (happened == result->empty())
                throw configuration_error{happened
                                              ? "say with --result what the other side answered: the step records it"
                                              : "what did not happen has no --result"};
            if (happened) what->result = read_json("--result", *result);
            return resolve(*what, std::chrono::seconds{*wait}, out);
        };
    });
}

void add_signal(CLI::App& saga, output& out, choice& chosen)
{
    auto* const command = saga.add_subcommand("signal", "give a step what it waits for, or will wait for");
    auto const id = std::make_shared<core::saga_id>();
    auto const step = std::make_shared<std::string>();
    auto const body = std::make_shared<std::string>();
    add_identity(*command, *id);
    command->add_option("step", *step, "the step that waits")->required();
    command->add_option("--body", *body, "the signal, in JSON as the step's type has it")->required();
    out.add_flag(*command);
    command->callback(
        [=, &out, &chosen] { chosen = [=, &out] { return signal(*id, *step, read_json("--body", *body), out); }; });
}

}  // namespace

void add_resolve_and_signal(CLI::App& saga, output& out, choice& chosen)
{
    add_resolve(saga, out, chosen);
    add_signal(saga, out, chosen);
}

void add_started_commands(CLI::App& app, output& out, choice& chosen)
{
    auto* const started = app.add_subcommand(
        "started",
        "steps that have begun and wait for a call, a signal or a time: DATABASE_URL is that of their service");
    started->require_subcommand(1);
    auto* const command = started->add_subcommand("list", "what waits for what, oldest first");
    auto const filter = std::make_shared<admin::started_filter>();
    command->add_option("--key", filter->key, "only those of that saga");
    command->add_flag("--unknown", filter->unknown, "only calls of which nobody knows what they have done");
    command->add_option("--limit", filter->limit, "how many at most")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str();
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [filter, &out] { return list(*filter, out); }; });
}

}  // namespace skald::tools
