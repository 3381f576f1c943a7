#include "rehearsal/written_rows.hpp"

#include "skald_rehearsal_queries.hpp"

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string_view>
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
    std::size_t place{};  // in the report
    std::int64_t id{};
    std::int64_t inserted{}, updated{}, deleted{};
    std::int64_t pages{};
    json primary_key;  // its columns' names; null: none

    bool has_key() const { return !primary_key.is_null(); }
};

std::string first_line(std::string const& text)
{
    return text.substr(0, text.find('\n'));
}

// A row as the server writes it. A number that a reader of JSON might round becomes a string: all but integers of at
// most 15 digits.
json read_row(std::string_view text)
{
    std::string exact;
    while (!text.empty()) {
        std::size_t size = 1;
        if (text.front() == '"')
            for (; text.at(size++) != '"';) size += text[size - 1] == '\\' ? 1 : 0;
        bool const is_number = text.front() == '-' || (text.front() >= '0' && text.front() <= '9');
        if (is_number) size = std::min(text.find_first_not_of("+-.0123456789eE"), text.size());
        auto const token = text.substr(0, size);
        auto const digits = size - (text.front() == '-' ? 1 : 0);
        bool const may_be_rounded = is_number && (digits > 15 || token.find_first_of(".eE") != std::string_view::npos);
        exact += may_be_rounded ? fmt::format("\"{}\"", token) : std::string{token};
        text.remove_prefix(size);
    }
    return json::parse(exact);
}

class row_finder
{
public:
    row_finder(postgres::connection& own, postgres::connection& others, std::string const& transaction, json& report)
        : own_{own}, others_{others}, transaction_{transaction}, report_{report}
    {}

    // First the counts, which are right whatever becomes of the search. Small tables are searched before large ones,
    // which may take all the time.
    void find()
    {
        std::vector<table> all;
        for (auto const& row : own_.run(std::string{queries::written_tables})) {
            table t{report_.size(),
                    row["relid"].as<std::int64_t>(),
                    row["inserted"].as<std::int64_t>(),
                    row["updated"].as<std::int64_t>(),
                    row["deleted"].as<std::int64_t>(),
                    row["pages"].as<std::int64_t>(),
                    row["primary_key"].is_null() ? json{} : json::parse(row["primary_key"].c_str())};
            add_counts(row["name"].c_str(), t);
            if (row["is_only_counted"].as<bool>()) continue;
            if (row["is_readable"].as<bool>()) all.push_back(std::move(t));
            else add_missing(t.place, "this role may not read the table");
        }
        add_rewritten();
        std::ranges::stable_sort(all, {}, &table::pages);
        own_.run("SAVEPOINT skald_search");
        for (auto const& t : all) {
            try {
                list_rows(t);
            }
            catch (std::exception const& error) {
                add_missing(t.place, first_line(error.what()));
            }
            own_.run("ROLLBACK TO SAVEPOINT skald_search");
        }
    }

private:
    void add_counts(std::string const& name, table const& t)
    {
        report_.push_back({{"table", name}, {"inserted", t.inserted}, {"updated", t.updated}, {"deleted", t.deleted}});
    }

    void add_missing(std::size_t place, std::string const& why)
    {
        auto& one = report_[place];
        one["not_listed"] = one.contains("not_listed") ? one["not_listed"].get<std::string>() + "; " + why : why;
    }

    // What TRUNCATE and ALTER TABLE do to rows, the server does not count.
    void add_rewritten()
    {
        auto const locked = own_.run(std::string{queries::tables_locked_whole});
        for (auto const& row : others_.run(filled_in(queries::rewritten_tables{.files = locked[0]["files"].c_str()}))) {
            std::string const name = row["name"].c_str();
            auto const same = std::ranges::find_if(report_, [&](auto const& one) { return one["table"] == name; });
            auto const place = static_cast<std::size_t>(same - report_.begin());
            if (place == report_.size()) add_counts(name, {});
            add_missing(place, "it was truncated or rewritten, and how many rows that took is not counted");
        }
    }

    void list_rows(table const& t)
    {
        bool const is_rewritten = report_[t.place].contains("not_listed");
        is_late_ = is_cut_ = false;
        unseen_.clear();
        is_seen_ = t.updated + t.deleted > 0 && !is_rewritten &&
                   others_.run(filled_in(queries::is_there{.relation = t.id}))[0]["is_there"].as<bool>();
        auto const now = rows_now(t);
        auto const before = rows_before(t, now);
        auto const is_known = [&](json const& row) { return before.contains(key_of(t, row)); };
        std::int64_t const known = std::ranges::count_if(now, is_known);
        // All that others do not have are new.
        bool const pairs = t.updated == 0 || (t.has_key() && std::ssize(now) - known <= t.inserted);
        auto const wanted_gone = t.deleted + (pairs ? 0 : std::max<std::int64_t>(0, t.updated - known));
        auto gone = rows_gone(t, wanted_gone);
        std::erase_if(gone, is_known);

        auto rows = json::array();
        for (auto const& row : now) {
            auto const was = before.find(key_of(t, row));
            if (was != before.end()) rows.push_back({{"op", "update"}, {"before", was->second}, {"after", row}});
            else rows.push_back({{"op", pairs ? "insert" : "write"}, {"after", row}});
        }
        for (auto const& row : gone) rows.push_back({{"op", pairs ? "delete" : "replace"}, {"before", row}});
        bool const is_fewer =
            std::cmp_less(now.size(), t.inserted + t.updated) || std::cmp_less(gone.size(), wanted_gone);
        if (is_late_)
            add_missing(t.place,
                        fmt::format("a second was not enough to search the table to its end ({} pages)", t.pages));
        else if (is_cut_ || rows.size() > rows_max)
            add_missing(t.place, fmt::format("at most {} are listed", rows_max));
        else if (!unseen_.empty()) add_missing(t.place, "another session can't see how they were before: " + unseen_);
        else if (is_fewer && !is_rewritten)
            add_missing(t.place, "some rows were written more than once or undone, or another session can't see them");
        if (rows.size() > rows_max) rows.erase(rows.begin() + rows_max, rows.end());
        report_[t.place]["rows"] = std::move(rows);
    }

    static json key_of(table const& t, json const& row)
    {
        auto key = json::object();
        if (t.has_key())
            for (auto const& column : t.primary_key) key[column.get<std::string>()] = row.at(column.get<std::string>());
        return key;
    }

    bool is_late() { return is_late_ = is_late_ || clock::now() > deadline_; }

    // From the end of the table, where most are. Stops when there can be no more.
    template <class Take>
    void search(postgres::connection& c, table const& t, std::string const& by, std::int64_t wanted, Take take)
    {
        auto const most = std::min<std::int64_t>(wanted, rows_max);
        std::int64_t found = 0;
        for (auto end = t.pages; end > 0 && found < most; end -= pages_at_once) {
            if (is_late()) return;
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
        search(own_, t, "xmin", wanted, [&](auto const& row) { found.push_back(read_row(row["row"].c_str())); });
        is_cut_ = found.size() == rows_max && wanted > std::int64_t{rows_max};
        return found;
    }

    // The other session sees nothing of a table that the step has made, and waits in vain for one that it has locked.
    template <class Ask>
    void ask_others(Ask ask)
    try {
        if (is_seen_) ask();
    }
    catch (pqxx::failure const& error) {
        is_seen_ = false;
        unseen_ = first_line(error.what());
    }

    std::map<json, json> rows_before(table const& t, std::vector<json> const& now)
    {
        std::map<json, json> found;
        if (!is_seen_ || !t.has_key() || now.empty() || is_late()) return found;
        auto keys = json::array();
        for (auto const& row : now) keys.push_back(key_of(t, row));
        ask_others([&] {
            for (auto const& row : others_.run(filled_in(queries::rows_before{
                     .relation = t.id, .keys = keys.dump(), .primary_key = t.primary_key.dump()}))) {
                auto was = read_row(row["row"].c_str());
                auto key = key_of(t, was);
                found.emplace(std::move(key), std::move(was));
            }
        });
        return found;
    }

    std::vector<json> rows_gone(table const& t, std::int64_t wanted)
    {
        std::map<std::string, json> found;  // by place
        if (wanted > 0)
            ask_others([&] {
                search(others_, t, "xmax", rows_max,
                       [&](auto const& row) { found.emplace(row["place"].c_str(), read_row(row["row"].c_str())); });
            });
        if (found.empty()) return {};
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
    json& report_;
    clock::time_point const deadline_{clock::now() + time_max};
    // Of the table at hand:
    bool is_late_{};
    bool is_cut_{};       // it has more rows than are listed
    bool is_seen_{};      // others can say how it was
    std::string unseen_;  // why they can't
};

}  // namespace

void add_written_rows(json& report, postgres::connection& own, postgres::connection& others,
                      std::string const& transaction)
{
    row_finder{own, others, transaction, report}.find();
}

}  // namespace skald::rehearsal
