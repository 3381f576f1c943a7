// The entry of a service, as its worker opens it and its server calls it.
#pragma once

#include "core/log.hpp"
#include "entry/connection_pool.hpp"
#include "entry/known_requests.hpp"
#include "entry/probes.hpp"
#include "entry/request_guard.hpp"
#include "entry/routes.hpp"
#include "entry/saga_resource.hpp"
#include "ports/transport.hpp"
#include "postgres/postgres_store.hpp"
#include "runtime/backlog.hpp"
#include "runtime/memory_source.hpp"

#include <skald/config.hpp>
#include <skald/entry.hpp>

#include <any>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>

namespace skald {

/// Threads: any, for the respond functions; one for the rest.
class entry::implementation
{
public:
    /// `routes`, `log` and `traces`, which may be null, must outlive it. Connects to nothing yet.
    implementation(std::string service, entry_detail::route_table const& routes, config const& settings,
                   core::logger& log, tracing::tracer* traces = nullptr);

    /// What it works with, from open() until close().
    struct process
    {
        postgres::connection_options database;
        ports::subscription const& deliveries;
        runtime::backlog const& backlog;
        runtime::memory_source& out;
    };

    /// From now on it accepts requests.
    void open(process const& with);

    /// From now on it refuses them, with 503. False if some were still running at `deadline`; otherwise nothing of
    /// what open() got is used any more.
    bool close(std::chrono::steady_clock::time_point deadline);

    /// Whether close() was called.
    bool is_closed() const { return is_closed_; }

    bool has_handlers() const { return routes_.has_handlers(); }

    /// Responds to what needs no database connection: probes of liveness, descriptions of problems, requests that go
    /// nowhere, and duplicates of a request that is in flight here or ended recently. Nothing if it must be asked by
    /// respond(). Never blocks. `notes` keeps, for one request, what was found out about it.
    std::optional<http::reply> respond_at_once(http::request& message, std::any& notes);

    /// Responds to everything.
    http::reply respond(http::request& message, std::any& notes);

    /// The most that a client may wait for a later reply.
    std::chrono::seconds wait_max() const { return wait_max_; }

    /// Blocks for that long; less if close() is called.
    void pause(std::chrono::milliseconds longest) { connections_.wait_for_close(longest); }

private:
    struct connection
    {
        connection(implementation& of, process const& with);

        postgres::postgres_store store;
        entry_detail::request_guard guard;
        entry_detail::saga_resource sagas;
        ports::subscription const& deliveries;
    };

    std::optional<http::reply> respond_in_memory(http::request& message, std::any& notes, bool may_block);
    http::reply run_handler(connection& with, http::request const& message, entry_detail::destination const& to);
    http::reply respond_by(connection& with, http::request const& message, entry_detail::destination const& to);

    std::string const service_;
    entry_detail::route_table const& routes_;
    std::size_t const connections_max_;
    std::chrono::seconds const wait_max_;
    core::logger& log_;
    tracing::tracer* const traces_;
    entry_detail::readiness_probe readiness_;
    entry_detail::known_requests known_;
    std::atomic<bool> is_closed_{};
    entry_detail::connection_pool<connection> connections_;
};

}  // namespace skald
