// `skald outbox`: what waits for the broker, for how long, and why; and dropping what can never be sent.
#include "commands.hpp"
#include "database.hpp"
#include "durations.hpp"

#include "core/instant.hpp"
#include "core/shell_word.hpp"
#include "core/text.hpp"
#include "postgres/literal.hpp"
#include "skald_operator_queries.hpp"
#include "skald_queries.hpp"
#include "table.hpp"

#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <pqxx/pqxx>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace skald::tools {
namespace {

std::string query(std::string_view text)
{
    return std::string{text};
}

/// If one of these is exceeded, the exit code is 1.
struct outbox_limits
{
    std::optional<std::int64_t> rows;
    std::optional<std::int64_t> age_seconds;
};

int outbox_status(outbox_limits const& limits, output const& out)
{
    auto c = connect("outbox");

    auto const total = c.run(query(operator_queries::outbox_totals))[0];
    auto const rows = total["messages"].as<std::int64_t>();
    auto const oldest = total["oldest_seconds"].as<std::int64_t>();
    auto const due = total["due"].as<std::int64_t>();
    nlohmann::json object{{"rows", rows},
                          {"oldest_seconds", oldest},
                          {"due", due},
                          {"deferred", total["deferred"].as<std::int64_t>()},
                          {"destinations", nlohmann::json::array()},
                          {"reasons", nlohmann::json::array()}};
    auto sentence =
        rows == 0 ? std::string{"the outbox is empty"}
                  : fmt::format(
                        "{} messages wait, the oldest for {} s: {} are due now, {} later; {} of all were refused when "
                        "they were tried last",
                        rows, oldest, due, rows - due, total["deferred"].c_str());
    for (auto const& row : c.run(query(operator_queries::outbox_by_destination))) {
        object["destinations"].push_back({{"destination", row["destination"].c_str()},
                                          {"rows", row["messages"].as<std::int64_t>()},
                                          {"oldest_seconds", row["oldest_seconds"].as<std::int64_t>()},
                                          {"deferred", row["deferred"].as<std::int64_t>()}});
        sentence +=
            fmt::format("\nto {}: {}, the oldest for {} s, {} refused", core::visible_text(row["destination"].c_str()),
                        row["messages"].c_str(), row["oldest_seconds"].c_str(), row["deferred"].c_str());
    }
    for (auto const& row : c.run(query(operator_queries::outbox_by_reason))) {
        object["reasons"].push_back({{"destination", row["destination"].c_str()},
                                     {"reason", row["error"].c_str()},
                                     {"rows", row["messages"].as<std::int64_t>()},
                                     {"attempts_max", row["attempts_max"].as<std::int64_t>()}});
        sentence +=
            fmt::format("\nrefused, to {}: {} (up to {} attempts): {}", core::visible_text(row["destination"].c_str()),
                        row["messages"].c_str(), row["attempts_max"].c_str(), core::visible_text(row["error"].c_str()));
    }
    bool const over = (limits.rows && rows > *limits.rows) || (limits.age_seconds && oldest > *limits.age_seconds);
    object["over"] = over;
    if (over) sentence += "\nthat is over the limit given";
    out.tell(sentence, object);
    return over ? 1 : 0;
}

struct listing
{
    std::optional<std::string> to;
    std::optional<std::string> key;
    int limit{50};
};

int list_messages(listing const& wanted, output const& out)
{
    auto c = connect("outbox");
    std::vector<std::vector<std::string>> lines{
        {"MESSAGE ID", "TYPE", "TO", "SCOPE", "KEY", "ATTEMPTS", "AGE (S)", "ERROR"}};
    auto messages = nlohmann::json::array();
    auto const found = c.run(postgres::execute(
        queries::list_messages{.destination = wanted.to, .key = wanted.key, .rows_max = wanted.limit}));
    for (auto const& row : found) {
        messages.push_back({{"message_id", row["message_id"].c_str()},
                            {"type", row["type"].c_str()},
                            {"destination", row["destination"].c_str()},
                            {"scope", row["scope"].c_str()},
                            {"key", row["key"].c_str()},
                            {"attempts", row["attempts"].as<int>()},
                            {"error", row["error"].c_str()},
                            {"age_seconds", row["age_seconds"].as<std::int64_t>()}});
        auto& line = lines.emplace_back();
        for (auto const* column :
             {"message_id", "type", "destination", "scope", "key", "attempts", "age_seconds", "error"})
            line.emplace_back(row[column].c_str());
    }
    out.tell(lines.size() > 1 ? table(lines) : "no such message waits", {{"messages", messages}});
    return 0;
}

struct dropping
{
    std::optional<std::string> id;
    std::optional<std::string> to;
    std::optional<std::string> scope;
    std::optional<std::string> before;
    std::string why;
    std::string by;
    bool yes{};
};

std::string say_which(nlohmann::json const& scopes)
{
    std::string named;
    for (auto const& one : scopes) named += (named.empty() ? "" : ", ") + core::shell_word(one.get<std::string>());
    return "say which by --scope: " + named;
}

std::string way_out(nlohmann::json const& refused)
{
    if (refused.contains("scopes")) return say_which(refused["scopes"]);
    if (refused.contains("messages"))
        return "`skald outbox list` shows them; name one destination with --to, or drop all of them with --yes";
    return "to drop it all the same, say --yes";
}

// Of many, each batch is a transaction of its own: one of them all would take longer than a statement may.
constexpr int batch_max = 1'000;

/// Drops one batch, and adds to `did` what became of it. Whether more may be left. The first one says for all others
/// what they may drop: what they report may go to the same destination, if that is the sagas' home.
bool drop_batch(postgres::connection& c, dropping& what, nlohmann::json& did)
{
    auto const wanted = postgres::execute(queries::drop_messages{.destination = what.to,
                                                                 .message_id = what.id,
                                                                 .reason = what.why,
                                                                 .by = what.by,
                                                                 .forced = what.yes,
                                                                 .of_scope = what.scope,
                                                                 .at_most = batch_max,
                                                                 .before = what.before});
    auto const rows = change(c, [&] { return c.run(wanted); });
    auto const batch = nlohmann::json::parse(rows[0]["answer"].c_str());
    for (auto const* list : {"dropped", "refused"})
        for (auto const& one : batch[list]) did[list].push_back(one);
    if (batch.contains("before")) what.before = batch["before"].get<std::string>();
    return what.yes && batch["dropped"].size() == batch_max;
}

int drop_messages(dropping what, output const& out)
{
    if (!what.id && !what.to) throw configuration_error{"say which: a MESSAGE_ID, or --to DESTINATION, or both"};
    if (!what.id && !what.yes)
        throw configuration_error{"every message to " + *what.to + " would be dropped: say --yes too"};
    if (what.before && !core::parse_instant(*what.before))
        throw configuration_error{"--before is a time as this command prints it, such as 2026-01-31T12:00:00.000000Z"};
    auto c = connect("outbox");
    nlohmann::json did{{"dropped", nlohmann::json::array()}, {"refused", nlohmann::json::array()}};
    auto const &dropped = did["dropped"], &refused = did["refused"];
    std::string failed;
    bool is_unknown{};
    try {
        while (drop_batch(c, what, did)) continue;
    }
    catch (std::exception const& error) {
        if (dropped.empty()) throw;
        is_unknown = dynamic_cast<may_be_done const*>(&error) != nullptr;
        failed = core::in_one_line(error.what());
    }
    if (dropped.empty() && refused.empty())
        return out.refuse(
            "no such message waits here: it was sent or dropped already, is being sent now, or was written only now");
    if (what.before) did["before"] = *what.before;
    auto text = fmt::format("{} dropped", dropped.size());
    if (!refused.empty()) text += fmt::format(", {} refused", refused.size());
    for (auto const& one : refused)
        text += fmt::format("\n{}: {}; {}", core::visible_text(one["message_id"].get<std::string>()),
                            one["why"].get<std::string>(), way_out(one));
    if (!failed.empty()) {
        did[is_unknown ? "unknown" : "failed"] = failed;
        text += is_unknown
                    ? fmt::format("; up to {} more may be gone, since its connection broke on the way: ", batch_max)
                    : "; then it failed: ";
        text += fmt::format("{}. Give it again with --before {} to go on with the rest", failed, *what.before);
    }
    out.tell(text, did);
    return refused.empty() && failed.empty() ? 0 : 1;
}

void add_list_of_messages(CLI::App& outbox, output& out, choice& chosen)
{
    auto* const command = outbox.add_subcommand("list", "the messages themselves, the oldest first");
    auto const wanted = std::make_shared<listing>();
    command->add_option("--to", wanted->to, "only those to that destination");
    command->add_option("--key", wanted->key, "only those of the saga with that key");
    command->add_option("--limit", wanted->limit, "how many at most")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str();
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [wanted, &out] { return list_messages(*wanted, out); }; });
}

void add_drop_of_messages(CLI::App& outbox, output& out, choice& chosen)
{
    auto* const command = outbox.add_subcommand(
        "drop", "remove messages that can never be sent; a saga that needs one is stuck from then on");
    auto const what = std::make_shared<dropping>();
    command->add_option("message_id", what->id, "as `skald outbox list` shows it");
    command->add_option("--to", what->to, "all to that destination, or only the message's copy to it");
    command->add_option("--scope", what->scope, "only those of that scope; needed where the message waits in several");
    command->add_option("--before", what->before,
                        "only what was written by then [when the command begins]: to go on where one has failed");
    add_reason(*command, what->why, "why, for the audit")->required();
    command->add_flag("--yes", what->yes,
                      "also those that a saga needs, and those that the broker has not refused; needed for all to a "
                      "destination, and for several with one id");
    command->add_option("--by", what->by, "who you are, for the audit; the database's user is recorded anyway");
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [what, &out] { return drop_messages(*what, out); }; });
}

}  // namespace

void add_outbox_commands(CLI::App& app, output& out, choice& chosen)
{
    auto* const outbox = app.add_subcommand("outbox", "the messages that wait for the broker");
    outbox->require_subcommand(1);
    auto* const status = outbox->add_subcommand("status", "how many, for how long, to which destinations, and why");
    auto const limits = std::make_shared<outbox_limits>();
    status->add_option("--warn-rows", limits->rows, "exit with 1 where more than that wait")->check(a_count());
    status->add_option("--warn-age", limits->age_seconds, "exit with 1 where one waits for more than that many seconds")
        ->check(a_count());
    out.add_flag(*status);
    status->callback([=, &out, &chosen] { chosen = [limits, &out] { return outbox_status(*limits, out); }; });
    add_list_of_messages(*outbox, out, chosen);
    add_drop_of_messages(*outbox, out, chosen);
}

}  // namespace skald::tools
