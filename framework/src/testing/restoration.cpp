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

restoration::restoration(simulation& w, std::vector<restored_table> const& tables)
{
    auto const services = w.services();
    for (auto const& one : tables) {
        auto const name = one.service + ": " + one.table;
        if (std::ranges::find(services, one.service) == services.end())
            throw std::invalid_argument{"restored: " + name + ": no step of that service is hosted here"};
        auto& at = w.service(one.service);
        auto const about = at.database().session().run(
            postgres::filled_in(testing_queries::restored_table{.except = one.except, .table_name = one.table}))[0];
        if (about["rows"].is_null()) throw std::invalid_argument{"restored: " + name + ": there is no such table"};
        if (!about["unknown_columns"].is_null())
            throw std::invalid_argument{"restored: " + name +
                                        ": there is no such column: " + about["unknown_columns"].c_str()};
        tables_.push_back({at, name, about["rows"].c_str()});
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
        text.append("  ").append(one.table).append(1, '\n');
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
