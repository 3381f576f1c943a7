#include "postgres/low_water.hpp"

#include "core/assert.hpp"
#include "postgres/connection.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <sstream>

namespace skald::postgres {
namespace {

using namespace std::chrono_literals;

constexpr auto raise_every = 1s;

constexpr int purge_share = 100;

}  // namespace

std::string low_water::search_from(clock::time_point now)
{
    is_full_search_ = now >= next_purge_;
    if (!is_full_search_) return mark_;
    next_purge_ = now + purge_every_;  // also if it does not finish
    return beginning;
}

void low_water::searched(clock::time_point began, clock::time_point ended, bool found_behind)
{
    SKALD_ASSERT(began <= ended);
    SKALD_ASSERT(is_full_search_ ||
                 !found_behind);  // only a search from the beginning can find what lies before the mark
    if (found_behind) mark_ = beginning;
    if (is_full_search_) next_purge_ = std::max(next_purge_, ended + purge_share * (ended - began));
}

void low_water::raise(connection& c, clock::time_point now)
{
    if (now < next_raise_) return;
    next_raise_ = now + raise_every;
    auto const seen = c.run(execute("outbox_writers"));
    std::string const writers = seen[0]["writers"].c_str();
    if (!candidate_.empty()) {
        if (!all_have_ended(writers)) return;
        // Only now is everything before the candidate visible.
        mark_ = c.run(execute(queries::oldest_from{.candidate = candidate_, .mark = mark_}))[0][0].c_str();
    }
    candidate_ = seen[0]["since"].c_str();
    writers_ = writers;
}

bool low_water::all_have_ended(std::string const& writers_now) const
{
    std::istringstream then{writers_};
    auto const now = ' ' + writers_now + ' ';
    for (std::string one; then >> one;)
        if (now.find(' ' + one + ' ') != std::string::npos) return false;
    return true;
}

}  // namespace skald::postgres
