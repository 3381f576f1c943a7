#include "admin/saga_list.hpp"

#include "core/instant.hpp"
#include "core/text.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <pqxx/pqxx>

#include <stdexcept>
#include <vector>

namespace skald::admin {
namespace {

using nlohmann::json;

// The position of a row in the list's order, as opaque text that needs no quoting in a shell.
std::string place_of(json const& saga)
{
    return core::to_hex(
        json::array({!saga["finished_at"].is_null(), saga["created_at"], saga["scope"], saga["key"]}).dump());
}

// NULL, each of them, for the list's beginning.
struct place
{
    postgres::parameter ended = std::nullopt;
    postgres::parameter created_at = std::nullopt;
    postgres::parameter scope = std::nullopt;
    postgres::parameter key = std::nullopt;
};

place read_place(std::optional<std::string> const& after)
try {
    if (!after) return {};
    auto const from = json::parse(core::from_hex(*after));
    auto const created_at = from.at(1).get<std::string>();
    if (!core::parse_instant(created_at)) throw std::invalid_argument{"no time"};
    return {.ended = from.at(0).get<bool>(),
            .created_at = created_at,
            .scope = from.at(2).get<std::string>(),
            .key = from.at(3).get<std::string>()};
}
catch (std::exception const&) {
    throw std::invalid_argument{"--after takes what the page before called `next`"};
}

json to_json(pqxx::row const& row)
{
    auto saga = json::object();
    for (auto const* name :
         {"key", "scope", "definition", "status", "reason", "created_at", "updated_at", "finished_at", "deadline_at"})
        saga[name] = row[name].is_null() ? json(nullptr) : json(row[name].c_str());
    saga["age_seconds"] = row["age_seconds"].as<std::int64_t>();
    return saga;
}

json found_to_json(pqxx::row const& row)
{
    auto const or_null = [](std::string text) { return text.empty() ? json(nullptr) : json(std::move(text)); };
    return {{"key", row["key"].c_str()},
            {"scope", row["scope"].c_str()},
            {"definition", row["definition"].c_str()},
            {"status", row["status"].c_str()},
            {"reason", or_null(row["reason"].c_str())},
            {"created_at", row["started"].c_str()},
            {"updated_at", row["updated_at"].c_str()},
            {"finished_at", or_null(row["ended"].c_str())},
            {"deadline_at", or_null(row["deadline_at"].c_str())},
            {"age_seconds", row["old_seconds"].as<std::int64_t>()},
            {"attributes", json::parse(row["attributes"].c_str())}};
}

json find_sagas(postgres::connection& c, saga_filter const& filter)
{
    check_names(filter.where, attribute_names(c));
    auto const from = read_place(filter.after);
    attribute_search wanted{.where = filter.where};
    wanted.status = filter.status;
    wanted.definition = filter.definition;
    wanted.scope = filter.scope;
    wanted.older = filter.older_than ? postgres::parameter{filter.older_than->count()} : std::nullopt;
    wanted.is_under_way = filter.status && *filter.status != "completed" && *filter.status != "compensated";
    wanted.after_time = from.created_at;
    if (from.scope.text() != nullptr) wanted.after_scope = from.scope.text();
    if (from.key.text() != nullptr) wanted.after_key = from.key.text();
    wanted.rows_max = filter.limit + 1;

    json page{{"sagas", json::array()}, {"next", nullptr}, {"searched_to", nullptr}};
    for (auto const& row : c.run(attribute_query(c, wanted))) {
        bool const is_full = page["sagas"].size() == static_cast<std::size_t>(filter.limit);
        if (is_full) {
            page["next"] = place_of(page["sagas"].back());
            return page;
        }
        if (row["matches"].as<bool>()) page["sagas"].push_back(found_to_json(row));
        if (!row["is_last"].as<bool>()) continue;
        page["searched_to"] = row["started"].c_str();
        page["next"] = place_of({{"finished_at", nullptr},
                                 {"created_at", row["started"].c_str()},
                                 {"scope", row["scope"].c_str()},
                                 {"key", row["key"].c_str()}});
    }
    return page;
}

}  // namespace

json list_sagas(postgres::connection& c, saga_filter const& filter)
{
    if (!filter.where.empty()) return find_sagas(c, filter);
    auto const after = read_place(filter.after);
    auto const older_than = filter.older_than ? postgres::parameter{filter.older_than->count()} : std::nullopt;
    auto const rows = c.run(postgres::execute(queries::list_sagas{.status = filter.status,
                                                                  .definition = filter.definition,
                                                                  .scope = filter.scope,
                                                                  .seconds_min = older_than,
                                                                  .after_ended = after.ended,
                                                                  .after_created_at = after.created_at,
                                                                  .after_scope = after.scope,
                                                                  .after_key = after.key,
                                                                  .rows_max = std::int64_t{filter.limit} + 1}));

    json page{{"sagas", json::array()}, {"next", nullptr}};
    for (auto const& row : rows) {
        if (page["sagas"].size() == static_cast<std::size_t>(filter.limit)) {
            page["next"] = place_of(page["sagas"].back());
            break;
        }
        page["sagas"].push_back(to_json(row));
    }
    return page;
}

}  // namespace skald::admin
