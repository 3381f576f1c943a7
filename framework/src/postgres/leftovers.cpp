#include "postgres/leftovers.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <array>

namespace skald::postgres {
namespace {

// One inspection costs as much as two transactions.
constexpr std::uint64_t inspected_first = 10;
constexpr std::uint64_t inspected_every = 100;

struct remedy
{
    std::string_view kind, instead;
};

constexpr std::array remedies{
    remedy{"setting", "SET LOCAL"},
    remedy{"role", "SET LOCAL ROLE"},
    remedy{"session authorization", "SET LOCAL SESSION AUTHORIZATION"},
    remedy{"advisory lock", "pg_advisory_xact_lock"},
    remedy{"temporary table", "CREATE TEMPORARY TABLE ... ON COMMIT DROP"},
    remedy{"prepared statement", "ctx.sql, which prepares what it runs"},
    remedy{"cursor", "no WITH HOLD"},
    remedy{"channel", "LISTEN on a connection of your own"},
};

std::string_view cut(std::string_view& rest, char at)
{
    auto const end = rest.find(at);
    auto const part = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    return part;
}

}  // namespace

session_things read_session(std::string_view text)
{
    session_things all;
    while (!text.empty()) {
        auto line = cut(text, '\n');
        auto const kind = cut(line, '\t');
        auto const name = cut(line, '\t');
        all[{std::string{kind}, std::string{name}}] = line;
    }
    return all;
}

std::string role_of(session_things const& session)
{
    auto const it =
        std::ranges::find(session, "session authorization", [](auto const& one) { return one.first.first; });
    SKALD_ASSERT(it != session.end());
    return it->first.second;
}

std::vector<leftover> left_behind(session_things const& before, session_things const& now)
{
    std::vector<leftover> all;
    for (auto const& [what, value] : now) {
        auto const was = before.find(what);
        if (was == before.end() || was->second != value) all.push_back({what.first, what.second});
    }
    // A setting that was reset. (A missing statement of Skald's is noticed where it is used.)
    for (auto const& [what, value] : before)
        if (what.first == "setting" && !now.contains(what)) all.push_back({what.first, what.second});
    return all;
}

std::string in_words(std::vector<leftover> const& all)
{
    std::string text;
    for (auto const& one : all) {
        if (!text.empty()) text += "; ";
        text.append(one.kind).append(1, ' ').append(one.name);
        auto const* const known = std::ranges::find(remedies, one.kind, &remedy::kind);
        if (known != remedies.end()) text.append(" (instead: ").append(known->instead).append(1, ')');
    }
    return text;
}

bool leftover_watch::wants_look(std::string const& step)
{
    std::lock_guard const lock{mutex_};
    auto const before = transactions_[step]++;
    return before < inspected_first || before % inspected_every == 0;
}

bool leftover_watch::is_news(std::string const& step, std::vector<leftover> const& what)
{
    std::set<std::string> kinds;
    for (auto const& one : what) kinds.insert(one.kind);
    auto known = step;
    for (auto const& kind : kinds) known.append(1, '\n').append(kind);
    std::lock_guard const lock{mutex_};
    return reported_.insert(known).second;
}

}  // namespace skald::postgres
