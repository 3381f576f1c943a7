// What a service's database holds of sagas under way, compared with what a process of the service hosts: said before
// the process takes their messages, and parks them.
#pragma once

#include "postgres/connection.hpp"
#include "runtime/registry.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace skald::admin {

enum class stored_place { saga, started, outbox };

/// A step of this service that is on the plan of sagas under way and is not hosted.
struct missing_step
{
    std::string definition;
    int version{};
    std::string step;
    std::int64_t count{};
    stored_place place{};
    std::string key;        // of one of them
    bool is_from_future{};  // of a newer version than this process knows: a newer process of the service has it
    bool is_at_least{};     // not all were looked at: there may be more
};

/// Data that a step of this service, as it is hosted, could not read.
struct unreadable_data
{
    std::string definition;
    int version{};
    std::string step;
    std::int64_t count{};
    stored_place place{};
    std::string key;
    std::string error;  // of that one
    bool is_at_least{};
};

/// How much is looked at. A part takes a time that does not grow with what is under way: the plans of the oldest and of
/// the newest sagas, the data of some of each version among these, and some messages.
enum class stored_extent { a_part, all };

struct stored_findings
{
    std::int64_t plans{};  // how many sagas' plans were looked at
    std::int64_t read{};   // the data of how many sagas and messages was read
    std::int64_t apart{};  // whose data is kept elsewhere, and was not read
    bool is_all{true};     // false: there may be sagas whose plan was not looked at
    std::vector<missing_step> missing;
    std::vector<unreadable_data> unreadable;

    bool is_well() const;  // nothing is missing, but from the future, and nothing unreadable
};

/// Looks at the steps of this service alone: what other services' steps read is not known here. Sees what is in this
/// database: not the sagas of other homes, except for what they have stored here, nor what waits in a broker's queue.
/// Throws what pqxx throws.
stored_findings check_stored(postgres::connection& c, std::string_view service, runtime::registry const& steps,
                             stored_extent extent);

/// What is wrong, and what to do, as one line for each.
std::string in_words(missing_step const& one);
std::string in_words(unreadable_data const& one);

nlohmann::json to_json(stored_findings const& found);

}  // namespace skald::admin
