// What a run has shown: at the home, in the participant's database, and of its processes.
#pragma once

#include "conform/plan.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace skald::conform {

/// (scope, key, step)
using step_name = std::tuple<std::string, std::string, std::string>;

/// What the home was told of one saga.
struct told
{
    std::string ends;                    // completed, compensated, stuck; empty: not yet
    std::optional<nlohmann::json> data;  // that came with it
    std::set<std::string> events;        // ids of the messages `shipped`
    std::map<std::string, std::pair<std::string, std::string>> reports;  // by step: the latest time, and status
};

struct step_record
{
    std::string status;
    int attempts{};
    int snoozes{};
};

struct parked_row
{
    std::string id, reason, error;
    step_name step;
};

struct seen
{
    std::map<saga_name, told> sagas;
    std::set<saga_name> struck;      // where the planned trouble has come
    std::set<saga_name> not_held;    // which no process had taken when all of them got SIGTERM
    std::set<saga_name> sent_early;  // whose `shipped` came while the COMMIT of ship was held
    std::map<step_name, step_record> records;
    std::map<step_name, std::map<std::string, int>> lines;  // of the ledger: where they were written, and how many
    std::map<step_name, std::set<std::int64_t>> cents;      // in these lines
    std::set<step_name> not_flushed;                        // whose COMMIT has not waited for the disk
    std::vector<parked_row> parked;
    std::uint32_t left{};    // deliveries, in the queue
    int unsent{};            // messages, in the outbox
    int ended_by_itself{};   // processes
    int not_stopped{};       // processes that SIGTERM has not ended
    std::string waited_for;  // when the time of the run was over; empty: it was not
    int kills{};
    std::uint64_t sent{}, duplicates{};
    std::string at;  // when it ended
};

}  // namespace skald::conform
