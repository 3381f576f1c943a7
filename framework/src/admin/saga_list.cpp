#include "admin/saga_list.hpp"

#include "core/instant.hpp"
#include "core/text.hpp"
#include "postgres/literal.hpp"

#include <pqxx/pqxx>

#include <array>
#include <stdexcept>
#include <vector>

namespace skald::admin {
namespace {

using nlohmann::json;
using postgres::literal_or_null;

// The position of a row in the list's order, as opaque text that needs no quoting in a shell.
std::string place_of(json const& saga)
{
    return core::to_hex(
        json::array({!saga["finished_at"].is_null(), saga["created_at"], saga["scope"], saga["key"]}).dump());
}

std::array<std::string, 4> read_place(std::optional<std::string> const& after)
try {
    if (!after) return {"NULL", "NULL", "NULL", "NULL"};
    auto const place = json::parse(core::from_hex(*after));
    auto const created_at = place.at(1).get<std::string>();
    if (!core::parse_instant(created_at)) throw std::invalid_argument{"no time"};
    return {place.at(0).get<bool>() ? "true" : "false", postgres::literal(created_at),
            postgres::literal(place.at(2).get<std::string>()), postgres::literal(place.at(3).get<std::string>())};
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
    auto const place = read_place(filter.after);
    auto const rows = c.run(postgres::execute(
        "list_sagas",
        {literal_or_null(filter.status), literal_or_null(filter.definition), literal_or_null(filter.scope),
         filter.older_than ? postgres::literal(std::int64_t{filter.older_than->count()}) : "NULL",
         postgres::literal(std::int64_t{filter.limit} + 1), place[0], place[1], place[2], place[3]}));

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
