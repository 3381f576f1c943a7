// One command for many sagas of a home: in batches, each a transaction, and audited as one act. See docs/finding.md and
// sql/migrations/0019_attributes.sql, skald.request_control_of_many().
#pragma once

#include "admin/saga_list.hpp"
#include "postgres/connection.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace skald::admin {

struct order_for_many
{
    std::string action;    // pause, resume, cancel, retry
    saga_filter filter{};  // without `after`; `limit` is the size of a batch
    std::string reason{};
    std::string by{};
};

/// {"action", "matching", "sample": [{"key", "scope", "definition", "status", "age_seconds", "refused"}]}: how many it
/// would be given for, and the oldest of these. Changes nothing. Throws std::invalid_argument for an attribute that no
/// saga has; what pqxx throws.
nlohmann::json preview(postgres::connection& c, order_for_many const& order, int sample_max);

/// How far an order has come. What is counted is committed.
struct order_progress
{
    std::int64_t matching{};  // when it began
    std::int64_t act{};       // its row in skald.audit; 0: nothing was done
    std::int64_t done{}, refused{};
    std::int64_t left{};                                // of those that are done: the saga does not end by it
    std::size_t at_hand{};                              // of a statement that has not answered: done or not, who knows
    std::int64_t busy{};                                // left out: another transaction holds them
    nlohmann::json refusals = nlohmann::json::array();  // {"scope", "key", "why"} of the first 100
    nlohmann::json remains = nlohmann::json::array();   // the same of `left`
    bool has_ended{};                                   // and the audit says so; false: it was stopped before
};

/// Gives it, the oldest saga first, until all are done or `is_stopped`, which is asked before each batch, and before
/// each saga of one of which some are held; after it has said so, it is not asked again. Sagas for which it would ask
/// for nothing new are left out, so that it can be given again to go on. If it throws what pqxx throws, `so_far` still
/// says how far it came.
void issue(postgres::connection& c, order_for_many const& order, std::function<bool()> const& is_stopped,
           order_progress& so_far);

}  // namespace skald::admin
