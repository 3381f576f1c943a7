// A process's health: whether it lives, and whether it can take a request.
//
// It is asked on an address of its own, so that whoever watches the process hears of it whatever its customers do to
// the HTTP entry; where the entry is on, it answers there too.
#pragma once

#include "core/log.hpp"
#include "http/server.hpp"
#include "ports/transport.hpp"
#include "postgres/postgres_store.hpp"

#include <skald/config.hpp>

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>

namespace skald::worker_detail {

/// The answer to GET /livez; nothing for another request.
std::optional<http::response> liveness(http::request const& r);

/// The answer to GET /readyz: 200 where the database answers. Never throws.
http::response readiness(postgres::postgres_store& store, ports::subscription const& deliveries);

/// Whether the settings want an address for it.
bool has_health_address(config const& settings);

/// Of the server of that address; a probe or two at a time are usual.
inline constexpr std::size_t health_connections_max = 32;

class health
{
public:
    /// Listens. Throws std::runtime_error for an address that can't be listened on.
    health(config const& settings, postgres::connection_options const& database, core::logger& log);

    /// Answers from now on: it lives, and is not ready.
    void start() { server_.start(); }

    /// Ready from now on, where the database is. `deliveries` outlives this. Threads: any.
    void begin_service(ports::subscription const& deliveries) { deliveries_ = &deliveries; }

    std::string address() const { return server_.address(); }

    /// Not ready from now on, whatever the database says; it still lives. Threads: any.
    void begin_drain() { is_draining_ = true; }

private:
    std::optional<http::response> answer_at_once(http::request const& r) const;
    http::response answer(http::request const& r);

    std::optional<http::response> why_not_ready() const;

    std::atomic<ports::subscription const*> deliveries_{};  // null until it is in service
    std::atomic<bool> is_draining_{false};
    postgres::postgres_store store_;  // its connection is made when somebody asks for the first time
    http::server server_;             // last: its threads use everything above
};

}  // namespace skald::worker_detail
