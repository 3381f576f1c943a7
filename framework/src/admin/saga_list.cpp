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

}  // namespace

json list_sagas(postgres::connection& c, saga_filter const& filter)
{
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
