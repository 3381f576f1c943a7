// The entry of a service, as its worker opens it and its server calls it.
#pragma once

#include "core/log.hpp"
#include "entry/connection_pool.hpp"
#include "entry/known_requests.hpp"
#include "entry/probes.hpp"
#include "entry/request_guard.hpp"
#include "entry/routes.hpp"
#include "entry/saga_resource.hpp"
#include "http/observer.hpp"
#include "metrics/front_metrics.hpp"
#include "metrics/lane_metrics.hpp"
#include "ports/front.hpp"
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
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace skald {

/// Threads: any, for the respond functions; one for the rest.
class entry::implementation final : public http::observer
{
public:
    /// `routes`, `log` and `traces`, which may be null, must outlive it. `front`: what the settings ask for, or none.
    /// Connects to nothing yet.
    implementation(std::string service, entry_detail::route_table const& routes, config const& settings,
                   core::logger& log, tracing::tracer* traces = nullptr, std::shared_ptr<ports::front> front = {});

    /// What it works with, from open() until close().
    struct process
    {
        postgres::connection_options database;
        ports::subscription const& deliveries;
        runtime::backlog const& backlog;
        runtime::memory_source& out;
        std::string database_id{};           // the service's database, for the front
        runtime::registry const* steps{};    // what the service hosts; null: not known
        std::function<void()> wake_waits{};  // looks at once for waits that have ended
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

    /// Counts a response, whatever server sends it; what the request went to is in `notes`.
    void count(std::any const& notes, http::response const& made, std::chrono::steady_clock::duration took);

    // --- The same for Skald's own server, on its I/O thread ---
    std::size_t route_of(http::received const& asked) const override;
    void responded(std::size_t route, http::response const& made,
                   std::optional<std::chrono::steady_clock::duration> took) override;

    /// What was counted of requests, by route. Threads: any.
    entry_detail::route_table const& routes() const { return routes_; }
    metrics::doubt_metrics const& doubts() const { return known_.doubts; }
    metrics::front_metrics const& front_counts() const { return known_.front_counts; }
    ports::front const* front() const { return front_.get(); }  // null: there is none

    /// The same, and waits for as long as a later response may be a better one.
    http::response wait_for_last(http::request& message, std::any& notes);

private:
    struct connection
    {
        connection(implementation& of, process const& with);

        std::function<void()> wake;  // looks at once for what a commit left to this process: messages, waits that ended
        postgres::postgres_store store;
        entry_detail::request_guard guard;
        entry_detail::saga_resource sagas;
        ports::subscription const& deliveries;
    };

    /// Blocks for that long; less if close() is called.
    void pause(std::chrono::milliseconds longest) { connections_.wait_for_close(longest); }

    std::optional<http::reply> respond_in_memory(http::request& message, std::any& notes, bool may_block);
    http::reply run_handler(connection& with, http::request const& message, entry_detail::destination const& to,
                            entry_detail::front_mark mark);
    http::reply respond_by(connection& with, http::request const& message, entry_detail::destination const& to,
                           entry_detail::front_mark mark);

    void log_access(std::string_view route, int status, std::optional<std::chrono::steady_clock::duration> took);

    std::string const service_;
    entry_detail::route_table const& routes_;
    std::size_t const connections_max_;
    std::chrono::seconds const wait_max_;
    core::logger& log_;
    core::severity const access_level_;
    tracing::tracer* const traces_;
    entry_detail::readiness_probe readiness_;
    std::shared_ptr<ports::front> const front_;
    entry_detail::known_requests known_;
    std::atomic<bool> is_closed_{};
    entry_detail::connection_pool<connection> connections_;
};

}  // namespace skald
