// What probes ask: whether the process is alive, and whether it can accept a request.
#pragma once

#include "core/log.hpp"
#include "ports/transport.hpp"
#include "postgres/postgres_store.hpp"

#include <skald/http.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>

namespace skald::entry_detail {

/// How long a probe waits for an answer of the database. The next one must find the connection free.
inline constexpr std::chrono::milliseconds answer_max{3'000};

/// The response to GET /livez; nothing for any other request.
std::optional<http::response> liveness(http::request const& r);

/// Whether the process can accept a request, which it can while the database responds. Logs why it can't, once for each
/// change: probes come every few seconds.
/// Threads: any.
class readiness_probe
{
public:
    /// `log` must outlive it.
    explicit readiness_probe(core::logger& log) : log_{log} {}

    /// The response to GET /readyz: 200 if the database responds. A frozen one costs answer_max, or as long as
    /// connecting takes where there is no connection yet. Never throws.
    http::response respond(postgres::postgres_store& store, ports::subscription const& deliveries);

private:
    core::logger& log_;
    std::atomic<bool> is_ready_{true};
};

/// The response to it while the process can't accept a request, whatever the state of the database.
http::response not_ready(std::string_view why);

}  // namespace skald::entry_detail
