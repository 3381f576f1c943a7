#include "saga_search.hpp"

#include "core/instant.hpp"
#include "core/text.hpp"
#include "postgres/literal.hpp"
#include "skald_console_queries.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

namespace skald::console {
namespace {

using nlohmann::json;
using postgres::filled_in;
using postgres::null_if_empty;

constexpr std::int64_t sagas_counted_max = 10'000;

// The parts of the list, in its order.
enum class part { stuck, open, ended, by_key, by_attribute };

// The row after which a page begins.
struct cursor
{
    part in{};
    std::string place, home, scope, key;
    bool is_first{true};  // of its part: there is nothing to be after
};

std::string write(cursor const& c)
{
    return core::to_hex(json::array({static_cast<int>(c.in), c.place, c.home, c.scope, c.key, c.is_first}).dump());
}

part first_part(saga_filter const& wanted)
{
    if (!wanted.where.empty()) return part::by_attribute;
    return wanted.key.empty() ? part::stuck : part::by_key;
}

part last_part(saga_filter const& wanted)
{
    auto const first = first_part(wanted);
    return first == part::stuck ? part::ended : first;
}

cursor read_cursor(saga_filter const& wanted)
try {
    auto const first = first_part(wanted);
    if (wanted.after.empty()) return {first, {}, {}, {}, {}, true};
    auto const read = json::parse(core::from_hex(wanted.after));
    cursor c{static_cast<part>(read.at(0).get<int>()), read.at(1), read.at(2), read.at(3), read.at(4), read.at(5)};
    if (c.in < first || c.in > last_part(wanted)) throw std::invalid_argument{"no part"};
    bool const is_time = c.in == part::by_key || c.is_first || core::parse_instant(c.place);
    if (!is_time || !core::is_storable_text(c.place + c.home + c.scope + c.key))
        throw std::invalid_argument{"no place"};
    return c;
}
catch (std::exception const&) {
    throw std::invalid_argument{"this is no page of this list: begin at its start"};
}

bool is_status(std::string const& text)
{
    constexpr std::array<std::string_view, 6> known{"running",     "compensating", "completed",
                                                    "compensated", "stuck",        "unknown"};
    return std::ranges::find(known, text) != known.end();
}

bool has_ended(std::string const& status)
{
    return status == "completed" || status == "compensated";
}

// Whether sagas of that status are in that part.
bool is_in(part p, std::string const& status)
{
    switch (p) {
    case part::stuck: return status.empty() || status == "stuck";
    case part::open: return status.empty() || (status != "stuck" && !has_ended(status));
    case part::ended: return status.empty() || has_ended(status);
    case part::by_key:
    case part::by_attribute: return true;
    }
    return false;
}

// A reason belongs to sagas that compensate: of those that ended, only they need to be looked at.
postgres::parameter status_in(part p, saga_filter const& wanted)
{
    if (p == part::stuck) return "stuck";
    if (p == part::ended && wanted.status.empty() && !wanted.reason.empty()) return "compensated";
    return null_if_empty(wanted.status);
}

// The first text behind all that begin with it. Keys are printable ASCII, so the last byte can be one more.
std::string behind(std::string text)
{
    ++text.back();
    return text;
}

// What the queries of the list share.
struct search
{
    std::string const& home;
    saga_filter const& wanted;
    cursor const& at;
    int rows_max;

    postgres::parameter place() const { return at.is_first ? postgres::parameter{std::nullopt} : at.place; }
    postgres::parameter older() const
    {
        return wanted.older_than ? postgres::parameter{wanted.older_than->count()} : postgres::parameter{std::nullopt};
    }
};

std::string by_key(search const& s)
{
    return filled_in(queries::sagas_by_key{.examined_max = s.wanted.examined_max,
                                           .status = null_if_empty(s.wanted.status),
                                           .definition = null_if_empty(s.wanted.definition),
                                           .scope = null_if_empty(s.wanted.scope),
                                           .reason = null_if_empty(s.wanted.reason),
                                           .older = s.older(),
                                           .key_from = s.wanted.key,
                                           .key_until = behind(s.wanted.key),
                                           .after_key = s.place(),
                                           .home = s.home,
                                           .after_home = s.at.home,
                                           .after_scope = s.at.scope,
                                           .rows_max = s.rows_max});
}

std::string query_of(postgres::connection& c, search const& s)
{
    if (s.at.in == part::by_key) return by_key(s);
    auto const& wanted = s.wanted;
    bool const by_attribute = s.at.in == part::by_attribute;
    auto const from = null_if_empty(wanted.key);
    admin::saga_search const sagas{.where = wanted.where,
                                   .status = by_attribute ? null_if_empty(wanted.status) : status_in(s.at.in, wanted),
                                   .definition = null_if_empty(wanted.definition),
                                   .scope = null_if_empty(wanted.scope),
                                   .key_from = from,
                                   .key_until = wanted.key.empty() ? from : behind(wanted.key),
                                   .reason = null_if_empty(wanted.reason),
                                   .older = s.older(),
                                   .is_under_way = !wanted.status.empty() && !has_ended(wanted.status),
                                   .after_time = s.place(),
                                   .home = s.home,
                                   .after_home = s.at.home,
                                   .after_scope = s.at.scope,
                                   .after_key = s.at.key,
                                   .examined_max = by_attribute
                                                       ? std::min(wanted.examined_max, admin::examined_by_attribute)
                                                       : wanted.examined_max,
                                   .rows_max = s.rows_max};
    if (by_attribute) return admin::attribute_query(c, sagas);
    return s.at.in == part::ended ? admin::ended_query(sagas) : admin::open_query(sagas);
}

saga_row saga_row_of(part p, std::string const& home, pqxx::row const& row)
{
    auto const text = [&](char const* name) { return std::string{row[name].c_str()}; };
    return {home,
            text("scope"),
            text("key"),
            text("definition"),
            text("status"),
            text("reason"),
            text("started"),
            text("ended"),
            text("place"),
            p == part::by_attribute ? text("attributes") : std::string{},
            row["age_seconds"].as<std::int64_t>(),
            row["took_ms"].as<std::int64_t>()};
}

bool comes_before(part p, saga_row const& one, saga_row const& other)
{
    auto const order = [](saga_row const& r) { return std::tie(r.place, r.home, r.scope, r.key); };
    bool const is_latest_first = p == part::ended || p == part::by_attribute;
    return is_latest_first ? order(other) < order(one) : order(one) < order(other);
}

// What a part of the list has: sorted and, if a search looked at as many as it may before it had found enough, up to
// the saga at which it stopped.
struct found_in_part
{
    std::vector<saga_row> rows;
    std::optional<saga_row> end;
};

void search_one(postgres::connection& c, search const& s, found_in_part& found)
{
    std::optional<saga_row> last;
    int matching = 0;
    for (auto const& row : c.run(query_of(c, s))) {
        auto one = saga_row_of(s.at.in, s.home, row);
        if (row["is_last"].as<bool>()) last = one;
        if (!row["matches"].as<bool>()) continue;
        found.rows.push_back(std::move(one));
        ++matching;
    }
    if (!last || matching == s.rows_max) return;
    if (!found.end || comes_before(s.at.in, *last, *found.end)) found.end = last;
}

found_in_part find_in_part(databases const& all, saga_filter const& wanted, cursor const& at, int rows_max,
                           found_sagas& page)
{
    found_in_part found;
    for (auto const& db : all.all()) {
        if (!wanted.home.empty() && db->service() != wanted.home) continue;
        try {
            db->ask([&](postgres::connection& c) {
                found_in_part here;  // so that what is asked a second time is not there twice
                here.end = found.end;
                search_one(c, {db->service(), wanted, at, rows_max}, here);
                found.rows.insert(found.rows.end(), here.rows.begin(), here.rows.end());
                found.end = here.end;
                return 0;
            });
        }
        catch (away const& why) {
            bool const is_known = std::ranges::any_of(page.missing, [&](auto& m) { return m.service == why.service; });
            if (!is_known) page.missing.push_back(why);
        }
    }
    // What one database has beyond the place where the search of another stopped comes on the next page.
    if (found.end) std::erase_if(found.rows, [&](auto const& r) { return comes_before(at.in, *found.end, r); });
    std::ranges::sort(found.rows, [&](auto const& a, auto const& b) { return comes_before(at.in, a, b); });
    return found;
}

// The attributes of all databases that are there. One that is away may have others: then nothing is known to be wrong.
void check_attributes(databases const& all, saga_filter const& wanted)
{
    std::vector<std::string> known;
    for (auto const& db : all.all()) {
        if (!wanted.home.empty() && db->service() != wanted.home) continue;
        try {
            auto const here = db->ask([](postgres::connection& c) { return admin::attribute_names(c); });
            for (auto const& name : here)
                if (std::ranges::find(known, name) == known.end()) known.push_back(name);
        }
        catch (away const&) {
            return;
        }
    }
    admin::check_names(wanted.where, known);
}

// The page after that saga.
std::string after(part in, saga_row const& r)
{
    return write({in, r.place, r.home, r.scope, r.key, false});
}

}  // namespace

found_sagas find_sagas(databases const& all, saga_filter const& wanted, int rows_max)
{
    if (!wanted.status.empty() && !is_status(wanted.status))
        throw std::invalid_argument{"a saga is running, compensating, stuck, unknown, completed or compensated"};
    if (!std::ranges::all_of(wanted.key, [](char c) { return c >= ' ' && c <= '~'; }))
        throw std::invalid_argument{"a key is printable ASCII"};
    if (!wanted.where.empty()) check_attributes(all, wanted);
    found_sagas page;
    auto at = read_cursor(wanted);
    auto const last = last_part(wanted);
    for (;; at = {static_cast<part>(static_cast<int>(at.in) + 1), {}, {}, {}, {}, true}) {
        if (is_in(at.in, wanted.status)) {
            auto const room = rows_max - static_cast<int>(page.rows.size());
            auto [found, end] = find_in_part(all, wanted, at, room + 1, page);
            bool const is_more = static_cast<int>(found.size()) > room;
            if (is_more) found.resize(static_cast<std::size_t>(room));
            page.rows.insert(page.rows.end(), found.begin(), found.end());
            if (is_more) {
                page.next = found.empty() ? write(at) : after(at.in, found.back());
                return page;
            }
            if (end) {
                page.searched_to = end->place;
                page.next = after(at.in, *end);
                return page;
            }
        }
        if (at.in == last) return page;
    }
}

saga_counts count_sagas(databases const& all)
{
    saga_counts sum;
    for (auto const& db : all.all()) {
        try {
            db->ask([&](postgres::connection& c) {
                auto const row = c.run(filled_in(queries::saga_counts{.count_max = sagas_counted_max}))[0];
                sum.stuck += row["stuck"].as<std::int64_t>();
                sum.unknown += row["unknown"].as<std::int64_t>();
                sum.running += row["running"].as<std::int64_t>();
                sum.compensating += row["compensating"].as<std::int64_t>();
                sum.about += row["about"].as<std::int64_t>();
                sum.is_more |= row["looked_at"].as<std::int64_t>() >= sagas_counted_max;
                return 0;
            });
        }
        catch (away const&) {  // the list beside it says so
        }
    }
    return sum;
}

std::vector<std::string> definitions(databases const& all)
{
    std::set<std::string> names;
    for (auto const& db : all.all()) {
        try {
            db->ask([&](postgres::connection& c) {
                for (auto const& row : c.run(std::string{queries::definitions})) names.insert(row[0].c_str());
                return 0;
            });
        }
        catch (away const&) {  // the list beside it says so
        }
    }
    return {names.begin(), names.end()};
}

}  // namespace skald::console
