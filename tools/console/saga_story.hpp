// One saga as all of its databases know it: what its home knows (admin/saga_view.hpp), and what each service on its
// plan has recorded, still holds in its outbox, or has parked.
#pragma once

#include "admin/saga_view.hpp"
#include "databases.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace skald::console {

/// Where the message for a step is, if it is in none of the queues.
struct message_place
{
    enum class kind { outbox, parked };
    kind where{};
    std::string service{};
    std::string error{};
    std::string reason{};  // why it is parked
    core::instant since{};
    std::int64_t parked_id{};
    bool waits{};  // in the outbox until a later time: for a retry, or because the broker refused it
    std::optional<nlohmann::json> data{};  // of the saga, as the message carries it; nothing: as `data` below
    std::string kept{};                    // the reference that it carries in the place of data
};

/// A step, or its compensation.
struct run
{
    enum class state { never, pending, running, unknown, retrying, done, rejected, parked, cancelled };
    state is{state::pending};
    int attempts{};
    int snoozes{};
    std::optional<std::int64_t> delivered;  // counted by the service's processes; nothing if no one counts
    std::string error;
    std::optional<core::instant> first_at;  // when it was first taken, by the clock of its service
    std::optional<core::instant> at;        // of the latest news
    bool is_first_hand{};                   // from the service's own database, and not only from what its home was told
    std::optional<message_place> message;
    std::string waits_for{};  // of one that has begun, in the words of `skald started list`; empty: not known
    bool is_in_doubt{};       // a call was made, and what it has done is not known: somebody may say it
    bool is_next{};           // the saga waits for this one
};

struct station
{
    std::string step, service;
    step_kind kind{};
    run forward;
    std::optional<run> back;
};

/// A service of the plan.
struct lane
{
    std::string service;
    bool is_given{};                              // the console has its address
    std::string why_away;                         // empty: it answered
    std::optional<admin::command_facts> command;  // that has arrived there
    away::how kind{};                             // of why_away
};

struct audit_row
{
    std::string service;
    std::int64_t id{};
    std::string at, actor, verb, scope, key;
    nlohmann::json detail;
};

struct saga_story
{
    std::string home;
    admin::saga_facts facts;
    std::string version;
    std::string sentence;                // of `skald saga show`
    std::string text;                    // its data as it started
    std::optional<nlohmann::json> data;  // the same, read; nothing if it is no JSON that Skald accepts
    nlohmann::json attributes;
    std::vector<station> stations;
    std::vector<lane> lanes;  // in the order in which the plan first comes to them
    std::vector<audit_row> audit;
};

/// Nothing if its home knows no such saga. Throws away if its home does not answer.
std::optional<saga_story> tell_saga(databases const& all, std::string const& home, core::saga_id const& id);

/// The homes that know a saga of that key, among those that answer; the others are added to `missing`.
std::vector<std::string> homes_of(databases const& all, core::saga_id const& id, std::vector<away>& missing);

/// What is different from the start: {"/path": [before, after]}; null for what is not there.
std::vector<std::pair<std::string, std::pair<std::string, std::string>>> changes(nlohmann::json const& start,
                                                                                 nlohmann::json const& now);

}  // namespace skald::console
