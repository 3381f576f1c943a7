// The sagas of a home, page by page.
#pragma once

#include "admin/saga_finding.hpp"
#include "postgres/connection.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace skald::admin {

struct saga_filter
{
    std::optional<std::string> status{};
    std::optional<std::string> definition{};
    std::optional<std::string> scope{};
    std::optional<std::chrono::seconds> older_than{};
    attribute_conditions where{};
    std::optional<std::string> after{};  // `next` of the previous page
    int limit{50};
};

/// {"sagas": [{"key", "scope", "definition", "status", "reason", "created_at", "updated_at", "finished_at",
/// "deadline_at", "age_seconds", "attributes"}], "next": text or null, "searched_to": text or null}: those that are
/// stuck first, then those under way, each the oldest first; then those that have ended, the latest ended first. With
/// `where`: the latest started first. `searched_to`: the time up to which sagas were looked at, if very many of them do
/// not match. A saga that ends while pages are read may be seen twice, and none that has not ended is skipped. Those
/// past their retention are not listed. Throws std::invalid_argument if `after` is no `next` of ours, or for an
/// attribute that no saga has; what pqxx throws.
nlohmann::json list_sagas(postgres::connection& c, saga_filter const& filter);

}  // namespace skald::admin
