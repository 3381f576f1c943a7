// Parked deliveries, in the database where they were parked: listed, shown, replayed and dropped.
#pragma once

#include "postgres/connection.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace skald::admin {

struct parked_filter
{
    std::optional<std::string> reason{};
    std::optional<std::string> scope{};
    std::optional<std::string> key{};
    std::optional<std::string> step{};
    std::int64_t after{};  // the last id of the previous page
    int limit{50};
};

/// {"parked": [{"id", "scope", "key", "step", "handler", "reason", "error", "type", "attempts", "parked_at",
/// "body_bytes"}], "next": id or null}, by id, which is by age. The bytes are those of the body itself, wherever it is.
nlohmann::json list_parked(postgres::connection& c, parked_filter const& filter);

/// The highest id there is; nothing if nothing is parked.
std::optional<std::int64_t> newest_parked(postgres::connection& c);

/// All of it, with "headers", the body as text ("body") or, if it is not text, in hexadecimal ("body_hex"), or, if it
/// is kept apart, what is known of it ("kept_body": "sha256", "bytes", "store"), and what to do, "advice". Nothing if
/// there is no such row.
std::optional<nlohmann::json> show_parked(postgres::connection& c, std::int64_t id);

/// The delivery written down, to be delivered again elsewhere: one line (core/recorded_delivery.hpp). Nothing if there
/// is no such row. Throws: configuration_error if the database does not say which service it belongs to.
std::optional<std::string> record_parked(postgres::connection& c, std::int64_t id);

/// Returns why not, or nothing if it was done. One transaction, with its row in skald.audit. `vouched`: it is genuine,
/// though not signed. `why` is kept in the audit; a replay may do without. Throws what pqxx throws where the next one
/// would fare no better: a lost connection, a missing privilege, a database that takes no writes.
std::optional<std::string> replay_parked(postgres::connection& c, std::int64_t id, std::string const& by, bool forced,
                                         bool vouched = false, std::string const& why = {});
std::optional<std::string> drop_parked(postgres::connection& c, std::int64_t id, std::string const& why,
                                       std::string const& by, bool forced);

}  // namespace skald::admin
