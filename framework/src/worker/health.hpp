// A process's health: whether it is alive, whether it can accept a request, and its metrics.
//
// It has an address of its own, so that probes get a response whatever clients do to the HTTP entry; if the entry is
// enabled, it responds to them too.
#pragma once

#include "core/log.hpp"
#include "entry/probes.hpp"
#include "http/server.hpp"
#include "ports/transport.hpp"
#include "postgres/postgres_store.hpp"
#include "worker/metrics_page.hpp"

#include <skald/config.hpp>

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>

namespace skald::worker_detail {

/// Whether the settings enable a health address.
bool has_health_address(config const& settings);

/// For the server of that address; one or two probes at a time are usual.
inline constexpr std::size_t health_connections_max = 32;

class health
{
public:
    /// Listens. Throws std::runtime_error if it can't listen on the address.
    health(config const& settings, postgres::connection_options const& database, metrics_page const& metrics,
           core::logger& log);

    /// From now on responds to probes: alive, but not ready.
    void start() { server_.start(); }

    /// From now on ready whenever the database is. `parts` must outlive this. Threads: any.
    void begin_service(served_parts const& parts) { parts_ = &parts; }

    std::string address() const { return server_.address(); }

    /// From now on not ready, whatever the state of the database; still alive. Threads: any.
    void begin_drain() { is_draining_ = true; }

private:
    std::optional<http::reply> answer_at_once(http::request const& r) const;
    http::response answer(http::request const& r);

    std::optional<http::response> why_not_ready() const;

    metrics_page const& metrics_;
    std::atomic<served_parts const*> parts_{};  // null until begin_service()
    std::atomic<bool> is_draining_{false};
    entry_detail::readiness_probe readiness_;
    postgres::postgres_store store_;  // connects at the first probe of readiness
    http::server server_;             // last: its threads use everything above
};

}  // namespace skald::worker_detail
