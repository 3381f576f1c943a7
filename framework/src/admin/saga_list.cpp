#include "admin/saga_list.hpp"

#include "core/instant.hpp"
#include "core/text.hpp"
#include "postgres/literal.hpp"
#include "skald_finding_queries.hpp"

#include <pqxx/pqxx>

#include <stdexcept>
#include <vector>

namespace skald::admin {
namespace {

using nlohmann::json;

constexpr std::int64_t examined_in_list = 20'000;  // sagas that one page may look at

// The parts of the list, in its order.
enum class part { stuck, open, ended, by_attribute };

// The row after which a page begins; `time` is empty at the beginning of a part.
struct cursor
{
    part in{};
    std::string time{}, scope{}, key{};
};

// As opaque text that needs no quoting in a shell.
std::string write(cursor const& c)
{
    return core::to_hex(json::array({static_cast<int>(c.in), c.time, c.scope, c.key}).dump());
}

part first_part(saga_filter const& filter)
{
    return filter.where.empty() ? part::stuck : part::by_attribute;
}

part last_part(saga_filter const& filter)
{
    return filter.where.empty() ? part::ended : part::by_attribute;
}

cursor read_cursor(saga_filter const& filter)
try {
    if (!filter.after) return {first_part(filter)};
    auto const from = json::parse(core::from_hex(*filter.after));
    cursor const at{static_cast<part>(from.at(0).get<int>()), from.at(1), from.at(2), from.at(3)};
    if (at.in < first_part(filter) || at.in > last_part(filter)) throw std::invalid_argument{"no part"};
    if (!at.time.empty() && !core::parse_instant(at.time)) throw std::invalid_argument{"no time"};
    return at;
}
catch (std::exception const&) {
    throw std::invalid_argument{"--after takes what the page before called `next`"};
}

bool has_ended(std::string const& status)
{
    return status == "completed" || status == "compensated";
}

// Whether sagas of that status are in that part.
bool is_in(part p, std::optional<std::string> const& status)
{
    if (!status || p == part::by_attribute) return true;
    return p == (*status == "stuck" ? part::stuck : has_ended(*status) ? part::ended : part::open);
}

std::string query_of(postgres::connection& c, saga_filter const& filter, cursor const& at, int rows_max)
{
    saga_search wanted{.where = filter.where};
    wanted.status = filter.status;
    if (at.in == part::stuck) wanted.status = "stuck";
    wanted.definition = filter.definition;
    wanted.scope = filter.scope;
    if (filter.older_than) wanted.older = filter.older_than->count();
    wanted.is_under_way = filter.status && !has_ended(*filter.status);
    wanted.after_time = postgres::null_if_empty(at.time);
    wanted.after_scope = at.scope;
    wanted.after_key = at.key;
    wanted.rows_max = rows_max;
    if (at.in == part::by_attribute) return attribute_query(c, wanted);
    wanted.examined_max = examined_in_list;
    return at.in == part::ended ? ended_query(wanted) : open_query(wanted);
}

json to_json(pqxx::row const& row)
{
    auto const or_null = [&](char const* name) {
        std::string text = row[name].c_str();
        return text.empty() ? json(nullptr) : json(std::move(text));
    };
    return {{"key", row["key"].c_str()},
            {"scope", row["scope"].c_str()},
            {"definition", row["definition"].c_str()},
            {"status", row["status"].c_str()},
            {"reason", or_null("reason")},
            {"created_at", row["started"].c_str()},
            {"updated_at", row["updated_at"].c_str()},
            {"finished_at", or_null("ended")},
            {"deadline_at", or_null("deadline_at")},
            {"age_seconds", row["old_seconds"].as<std::int64_t>()},
            {"attributes", json::parse(row["attributes"].c_str())}};
}

// Adds what a part has after `at`. Returns whether the page ends with it.
bool add_part(postgres::connection& c, saga_filter const& filter, cursor const& at, json& page)
{
    auto const limit = static_cast<std::size_t>(filter.limit);
    auto& sagas = page["sagas"];
    auto last = at;
    for (auto const& row : c.run(query_of(c, filter, at, filter.limit - static_cast<int>(sagas.size()) + 1))) {
        if (sagas.size() == limit) {
            page["next"] = write(last);
            return true;
        }
        last = {at.in, row["place"].c_str(), row["scope"].c_str(), row["key"].c_str()};
        if (row["matches"].as<bool>()) sagas.push_back(to_json(row));
        if (!row["is_last"].as<bool>()) continue;
        page["searched_to"] = last.time;
        page["next"] = write(last);
        return true;
    }
    return false;
}

}  // namespace

json list_sagas(postgres::connection& c, saga_filter const& filter)
{
    if (!filter.where.empty()) check_names(filter.where, attribute_names(c));
    json page{{"sagas", json::array()}, {"next", nullptr}, {"searched_to", nullptr}};
    auto const last = last_part(filter);
    for (auto at = read_cursor(filter);; at = {static_cast<part>(static_cast<int>(at.in) + 1)}) {
        if (is_in(at.in, filter.status) && add_part(c, filter, at, page)) return page;
        if (at.in == last) return page;
    }
}

}  // namespace skald::admin
