#include "admin/order_for_many.hpp"

#include "postgres/faults.hpp"
#include "skald_finding_queries.hpp"

#include <pqxx/pqxx>

#include <optional>
#include <vector>

namespace skald::admin {
namespace {

using nlohmann::json;

constexpr std::size_t refusals_max = 100;

struct batch
{
    std::vector<std::string> scopes, keys;
    std::string last_created_at;
};

postgres::parameter seconds(saga_filter const& filter)
{
    return filter.older_than ? postgres::parameter{filter.older_than->count()} : std::nullopt;
}

// What the audit says of the filter.
json in_json(saga_filter const& filter)
{
    auto said = json::object();
    if (filter.status) said["status"] = *filter.status;
    if (filter.definition) said["definition"] = *filter.definition;
    if (filter.scope) said["scope"] = *filter.scope;
    if (filter.older_than) said["older_than_seconds"] = filter.older_than->count();
    for (auto const& [name, value] : filter.where) said["where"].push_back(name + '=' + value);
    return said;
}

struct count
{
    std::int64_t sagas{};
    std::string until;  // they were started by then
};

count count_matching(postgres::connection& c, order_for_many const& order)
{
    auto const& f = order.filter;
    if (!f.where.empty()) check_names(f.where, attribute_names(c));
    condition_arrays const all{f.where};
    auto const row = c.run(postgres::filled_in(finding_queries::count_for_order{.action = order.action,
                                                                                .status = f.status,
                                                                                .definition = f.definition,
                                                                                .scope = f.scope,
                                                                                .older = seconds(f),
                                                                                .names = all.names,
                                                                                .vals = all.vals}))[0];
    return {row["sagas"].as<std::int64_t>(), row["until"].c_str()};
}

pqxx::result select(postgres::connection& c, order_for_many const& order, std::string const& until, batch const* after,
                    int rows_max)
{
    auto const& f = order.filter;
    condition_arrays const all{f.where};
    bool const is_first = after == nullptr;
    return c.run(postgres::filled_in(finding_queries::sagas_for_order{
        .is_sample = is_first,
        .action = order.action,
        .status = f.status,
        .definition = f.definition,
        .scope = f.scope,
        .until = until,
        .names = all.names,
        .vals = all.vals,
        .after_time = is_first || after->keys.empty() ? std::nullopt : postgres::parameter{after->last_created_at},
        .after_scope = is_first || after->keys.empty() ? std::string{} : after->scopes.back(),
        .after_key = is_first || after->keys.empty() ? std::string{} : after->keys.back(),
        .rows_max = rows_max}));
}

// False: another transaction holds one of them for longer than we may wait, and nothing was done.
bool give(postgres::connection& c, order_for_many const& order, batch const& to, order_progress& so_far)
try {
    json const about{{"filter", in_json(order.filter)}, {"matching", so_far.matching}};
    so_far.at_hand = to.keys.size();
    auto const act = so_far.act != 0 ? postgres::parameter{so_far.act} : std::nullopt;
    auto const rows = c.run("SET TRANSACTION READ WRITE;" +
                            postgres::filled_in(finding_queries::request_control_of_many{.action = order.action,
                                                                                         .scopes = to.scopes,
                                                                                         .keys = to.keys,
                                                                                         .reason = order.reason,
                                                                                         .requested_by = order.by,
                                                                                         .act = act,
                                                                                         .about = about.dump()}));
    auto const answer = json::parse(rows[0]["answer"].c_str());
    so_far.act = answer["act"];
    so_far.done += answer["done"].get<std::int64_t>();
    so_far.refused += static_cast<std::int64_t>(answer["refused"].size());
    so_far.left += static_cast<std::int64_t>(answer["left"].size());
    for (auto const& one : answer["refused"])
        if (so_far.refusals.size() < refusals_max) so_far.refusals.push_back(one);
    for (auto const& one : answer["left"])
        if (so_far.remains.size() < refusals_max) so_far.remains.push_back(one);
    so_far.at_hand = 0;
    return true;
}
catch (std::exception const&) {
    if (!postgres::says_blocked()) throw;
    so_far.at_hand = 0;
    return false;
}

}  // namespace

json preview(postgres::connection& c, order_for_many const& order, int sample_max)
{
    auto const [matching, until] = count_matching(c, order);
    json said{{"action", order.action}, {"matching", matching}, {"sample", json::array()}};
    for (auto const& row : select(c, order, until, nullptr, sample_max)) {
        said["sample"].push_back(
            {{"key", row["key"].c_str()},
             {"scope", row["scope"].c_str()},
             {"definition", row["definition"].c_str()},
             {"status", row["status"].c_str()},
             {"age_seconds", row["age_seconds"].as<std::int64_t>()},
             {"refused", row["refused"].is_null() ? json(nullptr) : json(row["refused"].c_str())}});
    }
    return said;
}

void issue(postgres::connection& c, order_for_many const& order, std::function<bool()> const& is_stopped,
           order_progress& so_far)
{
    auto const [matching, until] = count_matching(c, order);
    so_far.matching = matching;
    for (batch last;;) {
        if (is_stopped()) return;
        batch next;
        for (auto const& row : select(c, order, until, &last, order.filter.limit)) {
            next.scopes.emplace_back(row["scope"].c_str());
            next.keys.emplace_back(row["key"].c_str());
            next.last_created_at = row["created_at"].c_str();
        }
        if (next.keys.empty()) break;
        // One by one, so that what is held up holds up no other.
        if (!give(c, order, next, so_far))
            for (std::size_t i = 0; i < next.keys.size(); ++i) {
                if (is_stopped()) return;  // asked once more, it may have forgotten
                if (!give(c, order, {{next.scopes[i]}, {next.keys[i]}, {}}, so_far)) ++so_far.busy;
            }
        last = std::move(next);
    }
    if (so_far.act != 0)
        c.run("SET TRANSACTION READ WRITE;" +
              postgres::filled_in(finding_queries::end_order{.busy = so_far.busy, .act = so_far.act}));
    so_far.has_ended = true;
}

}  // namespace skald::admin
