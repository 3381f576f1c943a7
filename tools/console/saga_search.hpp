// The list of sagas, over the databases of all services: those that are stuck first, then those under way, each the
// oldest first; then those that have ended, the latest first. With the beginning of a key: in order of keys. With
// attributes: the latest started first.
#pragma once

#include "admin/saga_finding.hpp"
#include "databases.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace skald::console {

struct saga_filter
{
    std::string home{};
    std::string status{};  // one of the five
    std::string definition{};
    std::string scope{};
    std::string key{};     // its beginning
    std::string reason{};  // what it contains, in any case
    std::optional<std::chrono::seconds> older_than{};
    std::string after{};                // `next` of the page before
    std::int64_t examined_max{20'000};  // sagas of one database that one page may look at; by attributes fewer
    admin::attribute_conditions where{};

    bool operator==(saga_filter const&) const = default;
};

struct saga_row
{
    std::string home, scope, key, definition, status, reason, started, ended;
    std::string place;       // by which it is sorted
    std::string attributes;  // JSON; empty where they were not asked for
    std::int64_t age_seconds{};
    std::int64_t took_ms{};
};

struct found_sagas
{
    std::vector<saga_row> rows;
    std::string next;           // empty: there are no more
    std::string searched_to;    // a time or a key, if the search stopped there before it had found a whole page
    std::vector<away> missing;  // whose sagas are not among these
};

struct saga_counts
{
    std::int64_t stuck{}, unknown{}, running{}, compensating{}, about{};
    bool is_more{};  // than was counted
};

/// Throws std::invalid_argument if the filter can't be: an unknown status, an `after` that is none of ours, an
/// attribute that no saga has.
found_sagas find_sagas(databases const& all, saga_filter const& wanted, int rows_max);

saga_counts count_sagas(databases const& all);

/// Of all services.
std::vector<std::string> definitions(databases const& all);

}  // namespace skald::console
