#include "orders.hpp"

#include "admin/commands.hpp"
#include "admin/explanation.hpp"
#include "admin/order_for_many.hpp"
#include "core/text.hpp"
#include "database.hpp"
#include "started.hpp"
#include "table.hpp"
#include "worker/signals.hpp"

#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

namespace skald::tools {
namespace {

using nlohmann::json;

constexpr int sample_max = 10;

// What the command line says of an order, for one saga or many.
struct order_options
{
    admin::command one;
    admin::saga_filter filter;
    bool dry_run{};
    bool yes{};

    bool has_filter() const { return !filter.where.empty() || filter.status || filter.definition || filter.older_than; }

    admin::order_for_many for_many() const
    {
        admin::order_for_many order{one.action, filter, one.reason, one.by};
        if (!one.saga.scope.empty()) order.filter.scope = one.saga.scope;
        return order;
    }
};

std::string visible(json const& text)
{
    return core::visible_text(text.get<std::string>());
}

int order_one(admin::command const& what, output const& out)
{
    auto c = connect();
    auto const done = change(c, [&] { return admin::issue(c, what); });
    if (done.contains("refused")) return out.refuse(done["refused"].get<std::string>());
    std::string told;
    for (auto const& service : done["told"]) told += (told.empty() ? "" : ", ") + visible(service);
    out.tell(fmt::format("saga {}: {}{}; sent to {}{}", core::visible_text(what.saga.key), what.action,
                         done.contains("step") ? " of " + visible(done["step"]) : "", told,
                         done.contains("left") ? "; it does not end by this: " + visible(done["left"]) : ""),
             done);
    return done.contains("left") ? 1 : 0;
}

int show_what_would_be_done(admin::order_for_many const& order, output const& out)
{
    auto c = connect();
    auto const found = admin::preview(c, order, sample_max);
    std::vector<std::vector<std::string>> rows{{"KEY", "SCOPE", "DEFINITION", "STATUS", "AGE", "WOULD BE REFUSED"}};
    for (auto const& saga : found["sample"])
        rows.push_back({saga["key"], saga["scope"], saga["definition"], saga["status"],
                        admin::in_words(std::chrono::seconds{saga["age_seconds"].get<std::int64_t>()}),
                        saga["refused"].is_null() ? std::string{} : saga["refused"].get<std::string>()});
    auto const matching = found["matching"].get<std::int64_t>();
    if (matching == 0) out.tell("no saga here matches: " + order.action + " would do nothing", found);
    else
        out.tell(fmt::format("{} would be given for {} sagas; the oldest of them:\n\n{}\n\nto do it: --yes in the "
                             "place of --dry-run",
                             order.action, matching, table(rows)),
                 found);
    return 0;
}

// Some of the reasons do so themselves.
std::string naming_its_saga(json const& one)
{
    auto const saga = "saga " + visible(one["key"]), why = visible(one["why"]);
    return why.find(saga) == std::string::npos ? saga + ": " + why : why;
}

/// `failed`: why it did not come to its end. `is_lost`: because of its connection.
int sum_up(admin::order_for_many const& order, admin::order_progress const& p, std::string const& failed, bool is_lost,
           output const& out)
{
    auto text = fmt::format("{}: {} of {} sagas", order.action, p.done, p.matching);
    if (p.left > 0) text += fmt::format(", {} of which do not end by this", p.left);
    if (p.refused > 0) text += fmt::format(", {} refused", p.refused);
    if (std::cmp_less(p.remains.size() + p.refusals.size(), p.left + p.refused))
        text += fmt::format(" (named: the first {} of each)", std::max(p.remains.size(), p.refusals.size()));
    if (p.busy > 0) text += fmt::format(", {} left out: another transaction holds them", p.busy);
    auto const why = core::in_one_line(failed);
    bool const is_unknown = is_lost && p.at_hand > 0;
    if (is_unknown)
        text +=
            fmt::format("; up to {} more may have got it, since its connection broke on the way: {}", p.at_hand, why);
    else if (!why.empty()) text += "; then it failed: " + why;
    else if (!p.has_ended) text += "; stopped";
    if (!p.has_ended || p.busy > 0) text += ". Give it again to go on with the rest";
    if (!out.json) {
        for (auto const* list : {&p.refusals, &p.remains})
            for (auto const& one : *list) complain(naming_its_saga(one));
    }
    json said{{"action", order.action}, {"matching", p.matching}, {"done", p.done},       {"refused_count", p.refused},
              {"busy", p.busy},         {"ended", p.has_ended},   {"refused", p.refusals}};
    if (p.left > 0) said["left_count"] = p.left, said["left"] = p.remains;
    if (p.act != 0) said["audit_id"] = p.act;
    if (!why.empty()) said[is_unknown ? "unknown" : "failed"] = why;
    out.tell(text, said);
    return p.has_ended && p.refused == 0 && p.left == 0 && p.busy == 0 ? 0 : 1;
}

int order_many(admin::order_for_many const& order, output const& out)
{
    worker_detail::signals const signals;
    auto c = connect();
    admin::order_progress so_far;
    std::string failed;
    bool is_lost = false;
    try {
        auto const after_each = [&] {
            complain_if_not_replicated(c);
            return signals.wait(std::chrono::milliseconds{0});
        };
        admin::issue(c, order, after_each, so_far);
        complain_if_not_replicated(c);
    }
    catch (std::invalid_argument const&) {
        throw;
    }
    catch (std::exception const& error) {
        failed = error.what();
        is_lost = lost_connection(c, error);
    }
    return sum_up(order, so_far, failed, is_lost, out);
}

int give(order_options const& given, output const& out)
try {
    bool const is_for_one = !given.one.saga.key.empty();
    if (is_for_one == given.has_filter())
        throw configuration_error{"say which: the KEY of one saga; or many, by --where, --status, --definition or "
                                  "--older-than (--scope only narrows these)"};
    if (is_for_one && (given.dry_run || given.yes))
        throw configuration_error{"--dry-run and --yes are for many sagas: this is one"};
    if (is_for_one) return order_one(given.one, out);
    if (given.filter.status == "completed" || given.filter.status == "compensated")
        throw configuration_error{"a saga that has ended takes no command"};
    if (given.dry_run) return show_what_would_be_done(given.for_many(), out);
    if (!given.yes) throw configuration_error{"this is for many sagas: look at them with --dry-run, then say --yes"};
    return order_many(given.for_many(), out);
}
catch (std::invalid_argument const& error) {
    throw configuration_error{error.what()};
}

void add_order(CLI::App& saga, std::string const& action, std::string const& help, output& out, choice& chosen)
{
    auto* const command = saga.add_subcommand(action, help);
    auto const given = std::make_shared<order_options>();
    given->one.action = action;
    given->filter.limit = 50;
    command->add_option("key", given->one.saga.key, "the saga's key; or many, by the filters below");
    command->add_option("--scope", given->one.saga.scope,
                        "the scope of the key, if it has one; of many, only those of it");
    auto const finish = add_saga_filter(*command, given->filter);
    command->add_flag("--dry-run", given->dry_run, "of many: says how many they are, shows the oldest, does nothing");
    command->add_flag("--yes", given->yes, "of many: do it");
    command->add_option("--batch", given->filter.limit, "of many: how many in one transaction")
        ->check(CLI::Range(1, 1'000))
        ->capture_default_str();
    add_reason(*command, given->one.reason, "why: it is kept and shown with the saga");
    command->add_option("--by", given->one.by, "who you are, for the audit; the database's user is recorded anyway");
    out.add_flag(*command);
    command->callback([=, &out, &chosen] {
        chosen = [=, &out] {
            finish();
            return give(*given, out);
        };
    });
}

}  // namespace

std::function<void()> add_saga_filter(CLI::App& command, admin::saga_filter& filter)
{
    auto const where = std::make_shared<std::vector<std::string>>();
    command
        .add_option("--where", *where, "only those with that attribute, customer=bob; several times: with all of them")
        ->allow_extra_args(false);
    command.add_option("--status", filter.status, "only those")
        ->check(CLI::IsMember({"running", "compensating", "completed", "compensated", "stuck", "unknown"}));
    command.add_option("--definition", filter.definition, "only those of that definition");
    auto const age = std::make_shared<std::int64_t>(-1);
    command.add_option("--older-than", *age, "only those that were started longer ago: 90s, 15m, 2h, 7d")
        ->transform(CLI::AsNumberWithUnit(
                        std::map<std::string, std::int64_t>{{"s", 1}, {"m", 60}, {"h", 3'600}, {"d", 86'400}}) &
                    CLI::Range(std::int64_t{0}, std::int64_t{31'557'600'000}));  // 1,000 years
    return [=, &filter] {
        if (*age >= 0) filter.older_than = std::chrono::seconds{*age};
        try {
            filter.where = admin::read_conditions(*where);
        }
        catch (std::invalid_argument const& error) {
            throw configuration_error{std::string{"--where: "} + error.what()};
        }
    };
}

void add_orders(CLI::App& saga, output& out, choice& chosen)
{
    add_order(saga, "cancel", "stop a saga that is not past its pivot, and compensate what has run", out, chosen);
    add_order(saga, "pause", "begin no further step of a saga, in any service", out, chosen);
    add_order(saga, "resume", "continue a paused saga", out, chosen);
    add_order(saga, "retry", "put the parked step of a stuck saga back, with attempts counted from scratch", out,
              chosen);
}

}  // namespace skald::tools
