#include "audit_log.hpp"

#include "core/instant.hpp"
#include "postgres/literal.hpp"
#include "skald_console_queries.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <stdexcept>

namespace skald::console {
namespace {

using postgres::filled_in;
using postgres::null_if_empty;

constexpr std::int64_t rows_examined_max = 20'000;  // of each database

audit_row audit_row_of(std::string const& service, pqxx::row const& row)
{
    return {service,
            row["id"].as<std::int64_t>(),
            row["at"].c_str(),
            row["actor"].c_str(),
            row["verb"].c_str(),
            row["scope"].c_str(),
            row["key"].c_str(),
            nlohmann::json::parse(row["detail"].c_str(), nullptr, false)};
}

// Where whoever has looked at the fewest rows goes on; what is older is not shown before.
void goes_on_at(audit_page& page, std::string const& at)
{
    page.next = std::max(page.next, at);
}

void add_of(postgres::connection& c, std::string const& service, queries::audit_before const& what, audit_page& page)
{
    for (auto const& row : c.run(filled_in(what))) {
        if (row["is_last"].as<bool>()) goes_on_at(page, row["at"].c_str());
        if (row["matches"].as<bool>()) page.rows.push_back(audit_row_of(service, row));
    }
}

}  // namespace

std::vector<audit_row> audit_of(postgres::connection& c, std::string const& service, core::saga_id const& id)
{
    std::vector<audit_row> rows;
    for (auto const& row : c.run(filled_in(queries::audit_of_saga{.scope = id.scope, .key = id.key})))
        rows.push_back(audit_row_of(service, row));
    return rows;
}

std::string reason_of(audit_row const& row)
{
    if (!row.detail.is_object()) return {};
    return row.detail.value("why", row.verb.starts_with("saga") ? row.detail.value("reason", "") : std::string{});
}

audit_page audit_before(databases const& all, std::string const& before, std::string const& actor, int rows_max)
{
    if (!before.empty() && !core::parse_instant(before)) throw std::invalid_argument{"`before` is no time"};
    audit_page page;
    queries::audit_before const what{.examined_max = rows_examined_max,
                                     .actor = null_if_empty(actor),
                                     .before = null_if_empty(before),
                                     .rows_max = rows_max + 1};
    for (auto const& db : all.all()) {
        try {
            db->ask([&](postgres::connection& c) {
                add_of(c, db->service(), what, page);
                return 0;
            });
        }
        catch (away const& why) {
            page.missing.push_back(why);
        }
    }
    std::ranges::sort(page.rows, [](auto const& a, auto const& b) { return a.at > b.at; });
    std::erase_if(page.rows, [&](auto const& row) { return row.at < page.next; });
    page.is_partly_searched = !page.next.empty();
    // All of one time, although that is more than fits: the next page begins before it.
    if (page.rows.size() > static_cast<std::size_t>(rows_max)) {
        auto const last = page.rows.at(static_cast<std::size_t>(rows_max) - 1).at;
        goes_on_at(page, last);
        std::erase_if(page.rows, [&](auto const& row) { return row.at < last; });
    }
    return page;
}

}  // namespace skald::console
