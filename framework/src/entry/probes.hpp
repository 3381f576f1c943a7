// What probes ask: whether the process is alive, and whether it can accept a request.
#pragma once

#include "ports/transport.hpp"
#include "postgres/postgres_store.hpp"

#include <skald/http.hpp>

#include <optional>

namespace skald::entry_detail {

/// The response to GET /livez; nothing for any other request.
std::optional<http::response> liveness(http::request const& r);

/// The response to GET /readyz: 200 if the database responds. Never throws.
http::response readiness(postgres::postgres_store& store, ports::subscription const& deliveries);

/// The response to it while the process can't accept a request, whatever the state of the database.
http::response not_ready(std::string_view why);

}  // namespace skald::entry_detail
