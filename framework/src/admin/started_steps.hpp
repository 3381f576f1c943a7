// Steps that have begun and not ended, in the database of their service: what each waits for, and what an operator says
// about it.
#pragma once

#include "core/identity.hpp"
#include "postgres/connection.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace skald::admin {

struct started_filter
{
    std::optional<std::string> key{};
    std::optional<std::string> scope{};  // with the key: found by the primary key
    bool unknown{};                      // only calls of which nobody knows what they have done
    int limit{100};
};

/// {"started", "more"}: an array, oldest first, of {"key", "scope", "step", "status", "kind",
/// "dependency", "waits_for", "owner", "fence", "in_doubt", "is_answered", "calls", "looks", "tries", "since",
/// "due_at", "until", "age_seconds", "due_in_seconds", "error"}. `waits_for` is for people. Throws what pqxx throws, as
/// the others.
nlohmann::json list_started(postgres::connection& c, started_filter const& filter);

/// The step in that list; null if it has none.
nlohmann::json find_started(postgres::connection& c, core::saga_id const& saga, std::string const& step);

/// What has become of a call: with a result (JSON), it happened; with none, it did not and will not.
struct resolution
{
    core::saga_id saga;
    std::string step;
    std::optional<nlohmann::json> result;
    std::string reason;
    std::string by;
};

/// In the database of the step's service. Returns why it was refused; then nothing was done.
std::optional<std::string> resolve(postgres::connection& c, resolution const& what);

/// What the process that records a result has said of it: only that knows the step's type. `then`: what find_started()
/// found when the result was said, under the lock that saying it takes. {"is_recorded": true}, or
/// {"is_recorded": false, "error": why}; null as long as nobody has said anything.
nlohmann::json verdict_on(postgres::connection& c, resolution const& what, nlohmann::json const& then);

/// At the saga's home. Returns what skald.send_signal() does: kept, sent, duplicate, mismatch, late, no saga, no step,
/// no wait.
std::string signal(postgres::connection& c, core::saga_id const& saga, std::string const& step,
                   nlohmann::json const& body);

}  // namespace skald::admin
