// `skald parked ...`: what happens to the deliveries that a service has parked, in that service's database.
#include "commands.hpp"

#include "core/text.hpp"
#include "database.hpp"
#include "durations.hpp"
#include "parked.hpp"
#include "postgres/migrate.hpp"
#include "table.hpp"

#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>
#include <span>
#include <vector>

namespace skald::tools {
namespace {

using nlohmann::json;

// Otherwise a number that does not fit into 64 bits would become the largest one that does.
CLI::Validator a_number()
{
    auto const is_one = [](std::string& text) {
        return number_of_parked(text) ? std::string{} : "'" + text + "' is not the number of a parked delivery";
    };
    return {is_one, ""};
}

struct choice_of_parked
{
    admin::parked_filter filter;
    std::vector<std::int64_t> ids;
    std::string why;
    std::string by;
    bool all{};
    bool yes{};
    bool vouch{};
};

// A message of no saga has no step before its key was found; a report of Skald's own has neither.
std::string step_or_handler(json const& parked)
{
    for (auto const* name : {"handler", "step"})
        if (auto const& text = parked[name].get_ref<std::string const&>(); !text.empty()) return text;
    return parked["type"].get<std::string>();
}

// Whose it is: "saga order-1 of scope acme, step charge-payment", or "message m-1 for the handler payment-created".
std::string whose(json const& parked)
{
    auto const shown = [&](char const* name) { return core::visible_text(parked.at(name).get<std::string>()); };
    auto const scope = shown("scope"), key = shown("key"), id = shown("message_id");
    auto const scoped = key + (scope.empty() ? "" : " of scope " + scope);
    if (parked["handler"].get_ref<std::string const&>().empty())
        return fmt::format("saga {}, step {}", scoped, shown("step"));
    return fmt::format("{} for the handler {}{}", key.empty() ? "a message without a key" : "message " + scoped,
                       shown("handler"), id.empty() ? "" : ", message_id " + id);
}

int list(admin::parked_filter const& filter, output const& out)
{
    auto c = connect();
    auto const page = admin::list_parked(c, filter);
    std::vector<std::vector<std::string>> rows{
        {"ID", "PARKED AT", "REASON", "KEY", "SCOPE", "STEP OR HANDLER", "ERROR"}};
    for (auto const& p : page["parked"])
        rows.push_back(
            {p["id"].dump(), p["parked_at"], p["reason"], p["key"], p["scope"], step_or_handler(p), p["error"]});
    auto text =
        rows.size() > 1 ? table(rows) : "no parked delivery here matches: this is " + postgres::which_database(c.raw());
    if (!page["next"].is_null()) text += "\nmore: --after " + page["next"].dump();
    out.tell(text, page);
    return 0;
}

std::string kept_body(json const& kept)
{
    return fmt::format("its body is kept apart: {} bytes in {}, sha256:{}", kept.at("bytes").dump(),
                       core::visible_text(kept.at("store").get<std::string>()), kept.at("sha256").get<std::string>());
}

// "attempt 3"; what could not be read, or had no step, made none.
std::string attempt_of(json const& parked)
{
    auto const number = parked.at("attempts").get<int>();
    auto const& reason = parked.at("reason").get_ref<std::string const&>();
    if (number == 0) return "which did not run";
    return fmt::format("attempt {}{}", number,
                       reason == "malformed" || reason == "unknown_step" ? ", which did not run" : "");
}

int show(std::int64_t id, output const& out)
{
    auto c = connect();
    auto const p = admin::show_parked(c, id);
    if (!p) return out.refuse(fmt::format("there is no parked delivery {} here", id));
    auto const shown = [&](char const* name) { return core::visible_text(p->at(name).get<std::string>()); };
    auto text = fmt::format("parked delivery {} ({}) at {}\n{}, {}\nerror: {}\n{}\n\n", id, shown("reason"),
                            shown("parked_at"), whose(*p), attempt_of(*p), shown("error"), shown("advice"));
    for (auto const& [name, value] : p->at("headers").items())
        text += fmt::format("{}: {}\n", core::visible_text(name),
                            core::visible_text(value.is_string() ? value.get<std::string>() : value.dump()));
    text += '\n' + (p->contains("kept_body") ? kept_body(p->at("kept_body"))
                                             : shown(p->contains("body") ? "body" : "body_hex"));
    out.tell(text, *p);
    return 0;
}

// Each delivery has a transaction of its own: a refusal does not hold up the others, and what was done is told whatever
// comes after it.
class tally
{
public:
    tally(postgres::connection const& c, std::string_view did, output const& out) : c_{c}, did_{did}, out_{out} {}

    /// `act` answers why it refuses, if it does.
    template <class Act>
    void add(std::int64_t id, Act const& act)
    {
        at_hand_ = id;
        std::optional<std::string> const refused = change(c_, act);
        at_hand_ = 0;
        if (!refused) return done_.push_back(id);
        refused_.push_back({{"id", id}, {"why", *refused}});
        if (!out_.json) complain(core::visible_text(*refused));
    }

    template <class Act>
    void add_each(std::span<std::int64_t const> ids, Act const& act)
    {
        for (untried_ = ids; !untried_.empty();) {
            auto const id = untried_.front();
            untried_ = untried_.subspan(1);
            add(id, [&] { return act(id); });
        }
    }

    bool is_empty() const { return done_.empty() && refused_.empty(); }

    /// `failed`: why it did not come to its end. `is_lost`: and whether the one at hand was done is not known.
    int tell(std::string const& failed = {}, bool is_lost = false) const
    {
        auto text = fmt::format("{} {}", done_.size(), did_);
        if (!refused_.empty()) text += fmt::format(", {} refused", refused_.size());
        json said{{std::string{did_}, done_}, {"refused", refused_}};
        auto const why = core::in_one_line(failed);
        if (is_lost) {
            text += fmt::format("; delivery {} may have been {}, since its connection broke on the way: {}", at_hand_,
                                did_, why);
            said["unknown"].push_back({{"id", at_hand_}, {"why", why}});
        }
        else if (!failed.empty()) {
            text += "; then it failed: " + why;
            said["failed"] = why;
        }
        if (!untried_.empty()) {
            text += fmt::format("; not tried: {}", fmt::join(untried_, ", "));
            said["not_tried"] = std::vector<std::int64_t>{untried_.begin(), untried_.end()};
        }
        out_.tell(text, said);
        return refused_.empty() && failed.empty() ? 0 : 1;
    }

private:
    postgres::connection const& c_;
    std::string_view did_;
    output const& out_;
    std::int64_t at_hand_{};
    std::span<std::int64_t const> untried_;
    std::vector<std::int64_t> done_;
    json refused_ = json::array();
};

template <class All>
int tell_of(tally& counted, All const& all)
try {
    all();
    return counted.tell();
}
catch (may_be_done const& error) {
    return counted.tell(error.what(), true);
}
catch (std::exception const& error) {
    if (counted.is_empty()) throw;
    return counted.tell(error.what());
}

// Page by page, by id: a delivery that is parked again meanwhile gets a higher id, and without the bound the loop might
// never end.
void replay_all(postgres::connection& c, choice_of_parked what, tally& counted)
{
    auto const last = admin::newest_parked(c).value_or(0);
    for (bool more = last > 0; more;) {
        auto const page = admin::list_parked(c, what.filter);
        for (auto const& p : page["parked"]) {
            auto const id = what.filter.after = p["id"].get<std::int64_t>();
            if (id > last) return;
            counted.add(id, [&] { return admin::replay_parked(c, id, what.by, false); });
        }
        more = !page["next"].is_null();
    }
}

int replay(choice_of_parked const& what, output const& out)
{
    auto const& f = what.filter;
    bool const filtered = f.reason || f.scope || f.key || f.step;
    if (int{what.all} + int{filtered} + int{!what.ids.empty()} != 1)
        throw configuration_error{"say which: one or more IDs, or --key and other filters, or --all"};
    if (what.vouch && what.ids.empty())
        throw configuration_error{"--vouch is for deliveries that you have checked: name them by their IDs"};
    if (what.yes && what.ids.empty())
        throw configuration_error{"--yes is for deliveries whose rows you have checked: name them by their IDs"};
    auto c = connect();
    tally counted{c, "replayed", out};
    return tell_of(counted, [&] {
        if (what.ids.empty()) replay_all(c, what, counted);
        counted.add_each(what.ids,
                         [&](std::int64_t id) { return admin::replay_parked(c, id, what.by, what.yes, what.vouch); });
    });
}

int drop(choice_of_parked const& what, output const& out)
{
    if (what.ids.size() > 1 && !what.yes)
        throw configuration_error{fmt::format("{} deliveries would be gone for good: say --yes too", what.ids.size())};
    // That there are several is one question, and that a saga can never continue another.
    bool const is_forced = what.yes && what.ids.size() == 1;
    auto c = connect();
    tally counted{c, "dropped", out};
    return tell_of(counted, [&] {
        counted.add_each(what.ids,
                         [&](std::int64_t id) { return admin::drop_parked(c, id, what.why, what.by, is_forced); });
    });
}

void add_list_of_parked(CLI::App& parked, output& out, choice& chosen)
{
    auto* const command = parked.add_subcommand("list", "what is parked, the oldest first");
    auto const filter = std::make_shared<admin::parked_filter>();
    add_filters(*command, *filter);
    command->add_option("--after", filter->after, "the next page: what the last one called `next`")->check(a_count());
    command->add_option("--limit", filter->limit, "how many at most")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str();
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [filter, &out] { return list(*filter, out); }; });
}

void add_show(CLI::App& parked, output& out, choice& chosen)
{
    auto* const command = parked.add_subcommand("show", "one of them: error, headers, body, and what to do");
    auto const id = std::make_shared<std::int64_t>();
    command->add_option("id", *id, "its number")->required()->check(a_number());
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [id, &out] { return show(*id, out); }; });
}

void add_replay(CLI::App& parked, output& out, choice& chosen)
{
    auto* const command = parked.add_subcommand(
        "replay",
        "put them back: the same key, the same guard, the next fencing token, with attempts counted from scratch");
    auto const what = std::make_shared<choice_of_parked>();
    command->add_option("id", what->ids, "their numbers")->check(a_number());
    add_filters(*command, what->filter);
    command->add_flag("--all", what->all, "all that are parked here");
    command->add_flag(
        "--yes", what->yes,
        "with IDs, also those whose step committed by itself: you have checked what it wrote; and those with a wrong "
        "signature, as they came");
    command->add_flag("--vouch", what->vouch, "also unsigned ones: you have checked each, and it is genuine");
    command->add_option("--by", what->by, "who you are, for the audit; the database's user is recorded anyway");
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [what, &out] { return replay(*what, out); }; });
}

void add_drop(CLI::App& parked, output& out, choice& chosen)
{
    auto* const command = parked.add_subcommand("drop", "remove them for good");
    auto const what = std::make_shared<choice_of_parked>();
    command->add_option("id", what->ids, "their numbers")->required()->check(a_number());
    add_reason(*command, what->why, "why, for the audit")->required();
    command->add_flag("--yes", what->yes, "more than one; or one that a saga is stuck on, named alone");
    command->add_option("--by", what->by, "who you are, for the audit; the database's user is recorded anyway");
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [what, &out] { return drop(*what, out); }; });
}

}  // namespace

void add_filters(CLI::App& command, admin::parked_filter& filter)
{
    command.add_option("--reason", filter.reason, "only those parked for that reason")
        ->check(CLI::IsMember({"malformed", "unknown_step", "mismatch", "attempts_exhausted", "delivery_limit",
                               "transaction_ended", "unprocessable", "unknown_saga", "closed", "unsigned", "forged",
                               "no_key", "body_missing", "body_damaged"}));
    command.add_option("--scope", filter.scope, "only those of that scope");
    command.add_option("--key", filter.key, "only those of the saga with that key");
    command.add_option("--step", filter.step, "only those of that step: NAME or NAME.compensate");
}

void add_parked_commands(CLI::App& app, output& out, choice& chosen)
{
    auto* const parked = app.add_subcommand(
        "parked", "deliveries that a service has parked: DATABASE_URL is the database of that service");
    parked->require_subcommand(1);
    add_list_of_parked(*parked, out, chosen);
    add_show(*parked, out, chosen);
    add_parked_export(*parked, out, chosen);
    add_replay(*parked, out, chosen);
    add_drop(*parked, out, chosen);
}

}  // namespace skald::tools
