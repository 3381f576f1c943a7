// `skald saga ...`: an operator's queries and commands at a saga's home.
#include "commands.hpp"

#include "admin/commands.hpp"
#include "admin/saga_finding.hpp"
#include "admin/saga_list.hpp"
#include "admin/saga_view.hpp"
#include "core/text.hpp"
#include "database.hpp"
#include "orders.hpp"
#include "postgres/literal.hpp"
#include "postgres/migrate.hpp"
#include "skald_operator_queries.hpp"
#include "skald_queries.hpp"
#include "started.hpp"
#include "table.hpp"

#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>

namespace skald::tools {
namespace {

using nlohmann::json;

std::string text_of(json const& value)
{
    return value.is_null() ? std::string{} : value.is_string() ? value.get<std::string>() : value.dump();
}

// Stays on one line, whatever it contains.
std::string shown(json const& value)
{
    return core::visible_text(text_of(value));
}

int list(admin::saga_filter const& filter, output const& out)
try {
    auto c = connect();
    auto const page = admin::list_sagas(c, filter);
    std::vector<std::vector<std::string>> rows{{"KEY", "SCOPE", "DEFINITION", "STATUS", "AGE", "REASON"}};
    for (auto const& saga : page["sagas"])
        rows.push_back(
            {text_of(saga["key"]), text_of(saga["scope"]), text_of(saga["definition"]), text_of(saga["status"]),
             admin::in_words(std::chrono::seconds{saga["age_seconds"].get<std::int64_t>()}), text_of(saga["reason"])});
    auto text = rows.size() > 1 ? table(rows) : "no saga here matches: this is " + postgres::which_database(c.raw());
    if (page.contains("searched_to") && !page["searched_to"].is_null())
        text += "\nsearched as far as " + text_of(page["searched_to"]) + ": very many sagas do not match";
    if (!page["next"].is_null()) text += "\nmore: --after " + text_of(page["next"]);
    out.tell(text, page);
    return 0;
}
catch (std::invalid_argument const& error) {
    throw configuration_error{error.what()};
}

std::vector<std::string> step_row(std::string const& name, json const& step, std::string const& service)
{
    return {name,
            service,
            text_of(step["status"]),
            text_of(step["attempts"]),
            text_of(step.value("at", json(nullptr))),
            step.value("error", "")};
}

// A key may be that of a message of no saga, of which there is a record for each handler that got it.
int show_messages(postgres::connection& c, core::saga_id const& id, output const& out)
{
    auto const found = c.run(postgres::execute(queries::messages_of_key{.scope = id.scope, .key = id.key}));
    if (found.empty()) return out.refuse(admin::not_started_here(c, id));
    std::vector<std::vector<std::string>> rows{{"HANDLER", "STATUS", "ATTEMPTS", "AT", "REPLY", "PARKED", "ERROR"}};
    auto all = json::array();
    for (auto const& row : found) {
        bool const has_reply = row["has_reply"].as<bool>();
        rows.push_back({row["handler"].c_str(), row["status"].c_str(), row["attempts"].c_str(), row["at"].c_str(),
                        has_reply ? "yes" : "no", row["parked"].is_null() ? "" : row["parked"].c_str(),
                        row["error"].c_str()});
        all.push_back({{"handler", row["handler"].c_str()},
                       {"status", row["status"].c_str()},
                       {"attempts", row["attempts"].as<int>()},
                       {"at", row["at"].c_str()},
                       {"has_reply", has_reply},
                       {"error", row["error"].c_str()}});
        if (!row["parked"].is_null()) all.back()["parked"] = row["parked"].as<std::int64_t>();
    }
    out.tell(fmt::format("no saga of this key was started here; a message of no saga has it\n\n{}", table(rows)),
             {{"key", id.key}, {"scope", id.scope}, {"messages", all}});
    return 0;
}

// A broker that is away, or refuses: the relay takes a message from the outbox within a second.
json left_in_outbox(postgres::connection& c, core::saga_id const& id)
{
    auto all = json::array();
    for (auto const& row :
         c.run(postgres::filled_in(operator_queries::outbox_of_saga{.scope = id.scope, .key = id.key})))
        all.push_back({{"destination", row["destination"].c_str()},
                       {"age_seconds", row["age_seconds"].as<std::int64_t>()},
                       {"error", row["error"].c_str()}});
    return all;
}

std::string left_in_words(json const& left)
{
    std::string text;
    for (auto const& one : left) {
        auto const why = text_of(one["error"]);
        text +=
            fmt::format("\nIts message for {} is in this database's outbox, {} old: {}", text_of(one["destination"]),
                        admin::in_words(std::chrono::seconds{one["age_seconds"].get<std::int64_t>()}),
                        why.empty() ? "no broker that can be reached has taken it. `skald doctor` says whether one "
                                      "can be, the relay's log why not"
                                    : "the broker refused it: " + core::visible_text(why));
    }
    return text;
}

std::string attributes_in_words(json const& attributes)
{
    std::string text;
    for (auto const& [name, value] : attributes.items())
        text += (text.empty() ? "\n" : ", ") + name + '=' + shown(value);
    return text;
}

int show(core::saga_id const& id, output const& out)
{
    auto c = connect();
    auto const found = admin::find_saga(c, id);
    if (!found) return show_messages(c, id, out);
    auto saga = admin::to_operator_json(*found);
    saga["attributes"] = admin::attributes_of(c, id);
    saga["left_in_outbox"] = left_in_outbox(c, id);
    std::vector<std::vector<std::string>> rows{{"STEP", "SERVICE", "STATUS", "ATTEMPTS", "AT", "ERROR"}};
    for (auto const& step : saga["steps"]) {
        auto const name = text_of(step["name"]), service = text_of(step["service"]);
        rows.push_back(step_row(name, step, service));
        if (step.contains("compensation"))
            rows.push_back(step_row(name + ".compensate", step["compensation"], service));
    }
    out.tell(fmt::format("saga {} of {}, started at {}{}\n{}{}\n\n{}", core::visible_text(id.key),
                         shown(saga["definition"]), shown(saga["created_at"]), attributes_in_words(saga["attributes"]),
                         shown(saga["explanation"]), left_in_words(saga["left_in_outbox"]), table(rows)),
             saga);
    return 0;
}

void add_list_of_sagas(CLI::App& saga, output& out, choice& chosen)
{
    auto* const command = saga.add_subcommand("list", "the sagas that were started here, those that are stuck first, "
                                                      "then those under way, then those that have ended, the "
                                                      "latest first");
    auto const filter = std::make_shared<admin::saga_filter>();
    auto const finish = add_saga_filter(*command, *filter);
    command->add_option("--scope", filter->scope, "only those of that scope");
    command->add_option("--after", filter->after, "the next page: what the last one called `next`");
    command->add_option("--limit", filter->limit, "how many at most")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str();
    out.add_flag(*command);
    command->callback([=, &out, &chosen] {
        chosen = [=, &out] {
            finish();
            return list(*filter, out);
        };
    });
}

int close(std::string const& as_status, admin::command const& what, bool even_with_calls, output const& out)
{
    auto c = connect();
    auto const done = change(c, [&] { return admin::close(c, as_status, what, even_with_calls); });
    if (done.contains("refused")) return out.refuse(done["refused"].get<std::string>());
    std::string lost;
    for (auto const& step : done["lost"]) lost += "\nnothing records how it ends: " + shown(step);
    out.tell(fmt::format("saga {}: closed as {}; what still arrives of it is parked as `closed`{}",
                         core::visible_text(what.saga.key), as_status, lost),
             done);
    return 0;
}

void add_close(CLI::App& saga, output& out, choice& chosen)
{
    auto* const command = saga.add_subcommand(
        "close",
        "end a saga that can't end by itself: you have checked every service and done manually what was missing");
    auto const what = std::make_shared<admin::command>();
    auto const as_status = std::make_shared<std::string>();
    auto const has_looked = std::make_shared<bool>();
    add_identity(*command, what->saga);
    command->add_option("--as", *as_status, "what it is from then on")
        ->required()
        ->check(CLI::IsMember({"completed", "compensated"}));
    add_reason(*command, what->reason, "why: it is kept and shown with the saga")->required();
    command->add_option("--by", what->by, "who you are, for the audit; the database's user is recorded anyway");
    command->add_flag("--yes", *has_looked, "you have checked every service of it");
    auto const even_with_calls = std::make_shared<bool>();
    command->add_flag("--even-with-calls", *even_with_calls,
                      "also if a step is under way: what its call has done or will do is recorded nowhere");
    out.add_flag(*command);
    command->callback([=, &out, &chosen] {
        chosen = [=, &out] {
            if (!*has_looked) throw configuration_error{"pause it and check every service first, then say --yes too"};
            return close(*as_status, *what, *even_with_calls, out);
        };
    });
}

}  // namespace

void add_identity(CLI::App& command, core::saga_id& id)
{
    command.add_option("key", id.key, "the saga's key")->required();
    command.add_option("--scope", id.scope, "the scope of the key, if it has one");
}

void add_saga_commands(CLI::App& app, output& out, choice& chosen)
{
    auto* const saga =
        app.add_subcommand("saga", "sagas, at their home: DATABASE_URL is the database in which they were started");
    saga->require_subcommand(1);
    add_list_of_sagas(*saga, out, chosen);

    auto* const show_command = saga->add_subcommand("show", "where a saga is, and why");
    auto const id = std::make_shared<core::saga_id>();
    add_identity(*show_command, *id);
    out.add_flag(*show_command);
    show_command->callback([=, &out, &chosen] { chosen = [id, &out] { return show(*id, out); }; });

    add_orders(*saga, out, chosen);
    add_close(*saga, out, chosen);
    add_resolve_and_signal(*saga, out, chosen);
    add_versions(*saga, out, chosen);
}

}  // namespace skald::tools
