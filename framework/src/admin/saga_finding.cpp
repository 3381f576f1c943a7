#include "admin/saga_finding.hpp"

#include "skald_finding_queries.hpp"

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <algorithm>
#include <stdexcept>

namespace skald::admin {
namespace {

// Of those that have not ended and those that have, which differ in their time alone.
template <class Statement>
std::string by_time(saga_search const& wanted)
{
    return postgres::filled_in(Statement{.examined_max = wanted.examined_max,
                                         .definition = wanted.definition,
                                         .scope = wanted.scope,
                                         .reason = wanted.reason,
                                         .older = wanted.older,
                                         .status = wanted.status,
                                         .after_time = wanted.after_time,
                                         .home = wanted.home,
                                         .after_home = wanted.after_home,
                                         .after_scope = wanted.after_scope,
                                         .after_key = wanted.after_key,
                                         .rows_max = wanted.rows_max});
}

}  // namespace

attribute_conditions read_conditions(std::vector<std::string> const& texts)
{
    attribute_conditions all;
    for (auto const& text : texts) {
        auto const at = text.find('=');
        if (at == std::string::npos || at == 0 || at + 1 == text.size())
            throw std::invalid_argument{fmt::format("'{}' is not NAME=VALUE, as in customer=bob", text)};
        all.emplace_back(text.substr(0, at), text.substr(at + 1));
    }
    return all;
}

condition_arrays::condition_arrays(attribute_conditions const& all)
{
    for (auto const& [name, value] : all) {
        names.push_back(name);
        vals.push_back(value);
    }
}

nlohmann::json attributes_of(postgres::connection& c, core::saga_id const& id)
{
    auto const rows = c.run(postgres::filled_in(finding_queries::attributes_of_saga{.scope = id.scope, .key = id.key}));
    return nlohmann::json::parse(rows[0]["attributes"].c_str());
}

std::vector<std::string> attribute_names(postgres::connection& c)
{
    std::vector<std::string> names;
    for (auto const& row : c.run(std::string{finding_queries::attribute_names})) names.emplace_back(row[0].c_str());
    return names;
}

void check_names(attribute_conditions const& all, std::vector<std::string> const& known)
{
    for (auto const& [name, value] : all) {
        if (std::ranges::find(known, name) != known.end()) continue;
        if (known.empty())
            throw std::invalid_argument{fmt::format("no saga here has the attribute {}, or any other: a definition "
                                                    "names them, with .attribute<...>(\"{}\")",
                                                    name, name)};
        throw std::invalid_argument{
            fmt::format("no saga here has the attribute {}; there are: {}", name, fmt::join(known, ", "))};
    }
}

std::string open_query(saga_search const& wanted)
{
    return by_time<finding_queries::open_sagas>(wanted);
}

std::string ended_query(saga_search const& wanted)
{
    return by_time<finding_queries::ended_sagas>(wanted);
}

std::string attribute_query(postgres::connection& c, saga_search const& wanted)
{
    condition_arrays all{wanted.where};
    auto const rarest = c.run(postgres::filled_in(finding_queries::attribute_counts{
        .count_max = wanted.examined_max + 1, .names = all.names, .vals = all.vals}))[0];
    bool const by_status = wanted.is_under_way && rarest["sagas"].as<std::int64_t>() > wanted.examined_max;
    auto const first = rarest["place"].as<std::size_t>();
    auto const [name, value] = wanted.where.at(first);
    if (!by_status) {
        all.names.erase(all.names.begin() + static_cast<std::ptrdiff_t>(first));
        all.vals.erase(all.vals.begin() + static_cast<std::ptrdiff_t>(first));
    }
    return postgres::filled_in(finding_queries::sagas_by_attribute{.examined_max = wanted.examined_max,
                                                                   .status = wanted.status,
                                                                   .definition = wanted.definition,
                                                                   .scope = wanted.scope,
                                                                   .key_from = wanted.key_from,
                                                                   .key_until = wanted.key_until,
                                                                   .reason = wanted.reason,
                                                                   .older = wanted.older,
                                                                   .names = all.names,
                                                                   .vals = all.vals,
                                                                   .by_status = by_status,
                                                                   .name = name,
                                                                   .value = value,
                                                                   .after_time = wanted.after_time,
                                                                   .home = wanted.home,
                                                                   .after_home = wanted.after_home,
                                                                   .after_scope = wanted.after_scope,
                                                                   .after_key = wanted.after_key,
                                                                   .rows_max = wanted.rows_max});
}

}  // namespace skald::admin
