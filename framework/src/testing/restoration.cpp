#include "testing/restoration.hpp"

#include "postgres/literal.hpp"
#include "skald_testing_queries.hpp"

#include <nlohmann/json.hpp>
#include <pqxx/pqxx>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace skald::testing::inner {
namespace {

using nlohmann::json;

std::string changed_columns(std::string const& key, std::string const& was, std::string const& is)
{
    auto const before = json::parse(was);
    auto const now = json::parse(is);
    std::string text;
    for (auto const& [column, value] : before.items())
        if (now.at(column) != value)
            text.append(text.empty() ? "" : ", ")
                .append(column + " was " + value.dump() + " and is " + now.at(column).dump());
    return "    at " + key + ": " + text + '\n';
}

std::string line(char sign, std::string const& row)
{
    return std::string{"    "} + sign + ' ' + row + '\n';
}

}  // namespace

restoration::restoration(simulation& w, std::vector<remaining> const& remains)
{
    require_all_to_be(w, remains);
    for (auto const& service : w.services()) {
        std::vector<std::string> tables, columns;
        for (auto const& one : remains) {
            if (one.service != service) continue;
            tables.push_back(one.table);
            columns.push_back(json(one.columns).dump());
        }
        auto& at = w.service(service);
        for (auto const& row : at.database().session().run(
                 postgres::filled_in(testing_queries::restored_tables{.remaining = tables, .columns = columns})))
            tables_.push_back({at, row["name"].c_str(), row["rows"].c_str()});
    }
}

void restoration::require_all_to_be(simulation& w, std::vector<remaining> const& remains)
{
    auto const services = w.services();
    for (auto const& one : remains) {
        auto const name = "remains: " + one.service + ": " + one.table;
        if (std::ranges::find(services, one.service) == services.end())
            throw std::invalid_argument{name + ": no step of that service is hosted here"};
        auto const about = w.service(one.service)
                               .database()
                               .session()
                               .run(postgres::filled_in(
                                   testing_queries::wrong_remaining{.columns = one.columns, .table_name = one.table}));
        if (!about[0]["why"].is_null()) throw std::invalid_argument{name + ": " + about[0]["why"].c_str()};
    }
}

restoration::contents restoration::read(watched const& one)
{
    contents all;
    for (auto& row : one.at.database().pairs(one.query)) all.insert(std::move(row));
    return all;
}

void restoration::remember()
{
    for (auto& one : tables_) one.before = read(one);
}

std::string restoration::difference()
{
    std::string text;
    for (auto const& one : tables_) {
        auto const now = read(one);
        contents missing, extra;
        std::ranges::set_difference(one.before, now, std::inserter(missing, missing.end()));
        std::ranges::set_difference(now, one.before, std::inserter(extra, extra.end()));
        if (missing.empty() && extra.empty()) continue;
        text.append("  ").append(one.at.name() + ": " + one.table).append(1, '\n');
        for (auto const& [key, row] : missing) {
            auto const same = std::ranges::find(extra, key, &contents::value_type::first);
            bool const has_changed = !key.empty() && same != extra.end();
            text += has_changed ? changed_columns(key, row, same->second) : line('-', row);
            if (has_changed) extra.erase(same);
        }
        for (auto const& [key, row] : extra) text += line('+', row);
    }
    return text;
}

}  // namespace skald::testing::inner
