#include "audit/ours.hpp"

#include "postgres/literal.hpp"
#include "skald_audit_queries.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <algorithm>
#include <array>
#include <utility>

namespace skald::audit {
namespace {

constexpr std::array<pqxx::oid, 6> numbers{20, 21, 23, 700, 701, 1700};  // int8, int2, int4, float4, float8, numeric
constexpr pqxx::oid boolean{16};

[[noreturn]] void refuse(std::string_view why)
{
    throw configuration_error{fmt::format("--ours: {}", why.substr(0, why.find('\n')))};
}

// With the protocol's own parameters, which is also what keeps it to one statement.
void declare(postgres::connection& c, std::string const& name, std::string const& query, period const& over)
try {
    auto text = replaced(std::string{queries::audit_ours::statement_text}, "cursor", name);
    text = replaced(std::move(text), "ours", query);
    pqxx::nontransaction tx{c.raw()};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // exec_params: the one form that libpqxx 6 and 7 share
    tx.exec_params(text, core::write_instant(over.since), core::write_instant(over.until));
#pragma GCC diagnostic pop
}
catch (pqxx::sql_error const& error) {
    refuse(error.what());
}

cursor declared(postgres::connection& c, std::string const& name, std::string const& query, period const& over)
{
    declare(c, name, query, over);
    return {c, name};
}

}  // namespace

std::string trimmed(std::string query)
{
    query.erase(query.find_last_not_of(" \t\r\n;") + 1);
    return query;
}

our_rows::our_rows(postgres::connection& c, ours_options const& options, std::string const& name, period const& over)
    : options_{options}, rows_{declared(c, name, options.query, over)}
{}

void our_rows::look_at_columns()
{
    for (auto const& name : options_.compare) {
        try {
            columns_.push_back(rows_.rows().column_number(name));
        }
        catch (std::exception const&) {
            refuse(fmt::format("the query has no column {}, which is to be compared", name));
        }
        auto const type = rows_.rows().column_type(columns_.back());
        is_number_.push_back(std::ranges::find(numbers, type) != numbers.end());
        is_boolean_.push_back(type == boolean);
    }
}

std::optional<entry> our_rows::next()
try {
    if (!rows_.advance()) return std::nullopt;
    if (columns_.size() < options_.compare.size()) look_at_columns();
    auto const row = rows_.row();
    if (row["audited_key"].is_null()) refuse("the query has a row whose key is NULL");
    entry one{row["audited_key"].c_str(), {}};
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        auto const field = row[columns_[i]];
        if (field.is_null()) one.values.emplace_back();
        else if (is_boolean_[i]) one.values.emplace_back(field.c_str()[0] == 't' ? "true" : "false");
        else one.values.emplace_back(field.c_str());
    }
    if (one.key < latest_) throw std::logic_error{"rows are not in the order of their keys"};
    latest_ = one.key;
    return one;
}
catch (pqxx::sql_error const& error) {
    refuse(error.what());
}

std::optional<core::instant> remembered_since(postgres::connection& c)
{
    auto const known = c.run(std::string{queries::audit_memory});
    return known.empty() ? std::nullopt : core::parse_instant(known[0]["since"].c_str());
}

period with_beginnings(postgres::connection& c, ours_options const& options, period over)
{
    if (options.step.empty()) return over;
    auto const begun = core::parse_instant(c.run(postgres::filled_in(
        queries::audit_begun{.step = options.step, .since = over.since, .until = over.until}))[0]["at"]
                                               .c_str());
    if (!begun) return over;
    auto const remembered = remembered_since(c);
    over.since = std::min(over.since, remembered ? std::max(*begun, *remembered + over.grace) : *begun);
    return over;
}

our_records::our_records(postgres::connection& c, ours_options const& options, period const& over)
    : rows_{c, "audit_records"}
{
    auto const wide = over.widened(2);
    c.run(postgres::filled_in(queries::audit_records{.since = over.since,
                                                     .until = over.until,
                                                     .by_saga = options.by_saga,
                                                     .step = options.step,
                                                     .wide_since = wide.since,
                                                     .wide_until = wide.until}));
}

std::optional<std::pair<std::string, record>> our_records::next()
{
    if (!rows_.advance()) return std::nullopt;
    auto const row = rows_.row();
    return std::pair{std::string{row["compared"].c_str()},
                     record{row["scope"].c_str(), row["key"].c_str(), row["home"].c_str(), row["status"].c_str(),
                            row["at"].c_str(), row["settles_within"].as<bool>(), row["began_within"].as<bool>(),
                            row["is_old"].as<bool>()}};
}

}  // namespace skald::audit
