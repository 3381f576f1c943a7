#include "rehearsal/written_rows.hpp"

#include "skald_rehearsal_queries.hpp"

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace skald::rehearsal {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using nlohmann::json;
using postgres::filled_in;
namespace queries = rehearsal_queries;

// The transaction holds its locks for that long.
constexpr auto time_max = 1s;
constexpr std::int64_t pages_at_once = 4'096;  // 32 MiB
constexpr std::size_t rows_max = 200;

struct table
{
    std::int64_t id{};
    std::int64_t inserted{}, updated{}, deleted{};
    std::int64_t pages{};
    json primary_key;  // its columns' names; null: none
};

class row_finder
{
public:
    row_finder(postgres::connection& own, postgres::connection& others, std::string const& transaction)
        : own_{own}, others_{others}, transaction_{transaction}
    {}

    json find()
    {
        auto all = json::array();
        for (auto const& row : own_.run(std::string{queries::written_tables})) {
            table const t{row["relid"].as<std::int64_t>(),
                          row["inserted"].as<std::int64_t>(),
                          row["updated"].as<std::int64_t>(),
                          row["deleted"].as<std::int64_t>(),
                          row["pages"].as<std::int64_t>(),
                          row["primary_key"].is_null() ? json{} : json::parse(row["primary_key"].c_str())};
            json one{{"table", row["name"].c_str()},
                     {"inserted", t.inserted},
                     {"updated", t.updated},
                     {"deleted", t.deleted}};
            if (!row["is_skalds"].as<bool>()) {
                if (row["is_readable"].as<bool>()) list_rows(t, one);
                else one["not_listed"] = "this role may not read the table";
            }
            all.push_back(std::move(one));
        }
        return all;
    }

private:
    void list_rows(table const& t, json& one)
    {
        auto const now = rows_now(t);
        auto const before = rows_before(t, now);
        bool const has_key = !t.primary_key.is_null();
        bool const pairs = has_key || t.updated == 0;
        auto const wanted_gone = t.deleted + (has_key ? 0 : t.updated);
        auto const gone = wanted_gone > 0 ? rows_gone(t, wanted_gone) : std::vector<json>{};
        auto rows = json::array();
        for (auto const& row : now) {
            auto const was = before.find(key_of(t, row));
            if (was != before.end()) rows.push_back({{"op", "update"}, {"before", was->second}, {"after", row}});
            else rows.push_back({{"op", pairs ? "insert" : "write"}, {"after", row}});
        }
        for (auto const& row : gone)
            if (!has_key || !before.contains(key_of(t, row)))
                rows.push_back({{"op", pairs ? "delete" : "replace"}, {"before", row}});
        if (is_late_)
            one["not_listed"] =
                fmt::format("the table is too large to be searched to its end in a second ({} pages)", t.pages);
        else if (is_cut_ || rows.size() > rows_max) one["not_listed"] = fmt::format("at most {} are listed", rows_max);
        if (rows.size() > rows_max) rows.erase(rows.begin() + rows_max, rows.end());
        one["rows"] = std::move(rows);
    }

    static std::string key_of(table const& t, json const& row)
    {
        auto key = json::array();
        if (t.primary_key.is_array())
            for (auto const& column : t.primary_key) key.push_back(row.at(column.get<std::string>()));
        return key.dump();
    }

    // From the end of the table, where most are. Stops when there can be no more.
    template <class Take>
    void search(postgres::connection& c, table const& t, std::string const& by, std::int64_t wanted, Take take)
    {
        auto const most = std::min<std::int64_t>(wanted, rows_max);
        std::int64_t found = 0;
        for (auto end = t.pages; end > 0 && found < most; end -= pages_at_once) {
            if (clock::now() > deadline_) {
                is_late_ = true;
                return;
            }
            auto const rows =
                c.run(filled_in(queries::rows_by{.relation = t.id,
                                                 .first_page = std::max<std::int64_t>(0, end - pages_at_once),
                                                 .end_page = end,
                                                 .transaction = transaction_,
                                                 .rows_max = most - found,
                                                 .by = by}));
            for (auto const& row : rows) take(row), ++found;
            if (&c == &own_) c.run(std::string{queries::close_rows});
        }
    }

    std::vector<json> rows_now(table const& t)
    {
        auto const wanted = t.inserted + t.updated;
        std::vector<json> found;
        search(own_, t, "xmin", wanted, [&](auto const& row) { found.push_back(json::parse(row["row"].c_str())); });
        is_cut_ = found.size() == rows_max && wanted > std::int64_t{rows_max};
        return found;
    }

    std::map<std::string, json> rows_before(table const& t, std::vector<json> const& now)
    {
        std::map<std::string, json> found;
        if (t.primary_key.is_null() || now.empty()) return found;
        for (auto const& row : others_.run(filled_in(queries::rows_before{
                 .relation = t.id, .rows = json(now).dump(), .primary_key = t.primary_key.dump()}))) {
            auto was = json::parse(row["row"].c_str());
            auto key = key_of(t, was);
            found.emplace(std::move(key), std::move(was));
        }
        return found;
    }

    std::vector<json> rows_gone(table const& t, std::int64_t wanted)
    {
        std::map<std::string, json> found;  // by place
        search(others_, t, "xmax", rows_max,
               [&](auto const& row) { found.emplace(row["place"].c_str(), json::parse(row["row"].c_str())); });
        bool const may_be_more = found.size() == rows_max;
        std::vector<std::string> places;
        places.reserve(found.size());
        for (auto const& [place, row] : found) places.push_back(place);
        for (auto const& row : own_.run(filled_in(queries::places_still_there{.relation = t.id, .places = places})))
            found.erase(row["place"].c_str());
        own_.run(std::string{queries::close_rows});
        std::vector<json> gone;
        gone.reserve(found.size());
        for (auto& [place, row] : found) gone.push_back(std::move(row));
        is_cut_ = is_cut_ || (may_be_more && std::cmp_less(gone.size(), wanted));
        return gone;
    }

    postgres::connection& own_;
    postgres::connection& others_;
    std::string const& transaction_;
    clock::time_point const deadline_{clock::now() + time_max};
    bool is_late_{};
    bool is_cut_{};  // the table at hand has more rows than are listed
};

}  // namespace

json written_rows(postgres::connection& own, postgres::connection& others, std::string const& transaction)
{
    return row_finder{own, others, transaction}.find();
}

}  // namespace skald::rehearsal
