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
/// "deadline_at", "age_seconds"}], "next": text or null}: those that have not ended first, each part by age. A saga
/// that ends while pages are read may be seen twice, and none that has not ended is skipped. Throws
/// std::invalid_argument if `after` is no `next` of ours; what pqxx throws.
///
/// With `where`: the latest started first, each with "attributes"; and "searched_to", the time up to which sagas were
/// looked at if that was not enough for a page, or null. Throws std::invalid_argument for an attribute that no saga
/// has.
nlohmann::json list_sagas(postgres::connection& c, saga_filter const& filter);

}  // namespace skald::admin
