// The text of a store's transaction: the claim with which it begins, how the claim's rows are read, and the changes
// with which it ends. See sql/queries/guard.sql.
#pragma once

#include "ports/store.hpp"

#include <pqxx/result>

#include <chrono>
#include <optional>
#include <span>
#include <string>

namespace skald::postgres {

/// `wait`: as for ports::store::begin().
std::string claim_text(std::span<ports::claim_item const> items, std::optional<std::chrono::milliseconds> wait);

/// The same for a request.
std::string claim_request_text(ports::claim_item const& item, std::optional<std::chrono::milliseconds> wait);

/// A row of either.
ports::claim_answer read_claim(pqxx::row const& row);

/// A row of the second, for the request of `saga`.
ports::request_claim read_request_claim(pqxx::row const& row, core::saga_id const& saga);

/// Gives a started step back.
std::string release_text(ports::started_release const& what);

/// The last writes of a transaction, to go before COMMIT.
std::string changes_text(ports::changes const& what);

}  // namespace skald::postgres
