// What GET /metrics shows of a process.
#pragma once

#include "entry/entry.hpp"
#include "http/server.hpp"
#include "metrics/body_metrics.hpp"
#include "metrics/database_figures.hpp"
#include "metrics/publish_metrics.hpp"
#include "ports/transport.hpp"
#include "runtime/lane_counts.hpp"
#include "runtime/registry.hpp"
#include "runtime/started_loop.hpp"
#include "tracing/tracer.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace skald::worker_detail {

/// Where the parts of a process count, apart from steps (runtime/registry.hpp) and routes (entry/routes.hpp).
struct process_metrics
{
    std::shared_ptr<runtime::lane_counts> lanes{std::make_shared<runtime::lane_counts>()};
    std::shared_ptr<metrics::publish_metrics> dispatch{std::make_shared<metrics::publish_metrics>()};
    std::shared_ptr<metrics::publish_metrics> relay{std::make_shared<metrics::publish_metrics>()};
    std::shared_ptr<metrics::body_metrics> bodies{std::make_shared<metrics::body_metrics>()};
    metrics::database_figures figures;
};

/// The parts that a process has once it serves.
struct served_parts
{
    ports::subscription const& deliveries;
    http::server const* server{};            // null: it has no HTTP entry of its own
    runtime::started_loop const* started{};  // null: none of its steps calls or waits
};

class metrics_page
{
public:
    /// All of them must outlive it. `traces`: null if no spans are made. Without a relay nothing is said of one: it is
    /// another process's.
    metrics_page(std::string service, process_metrics const& counts, runtime::registry const& steps,
                 entry::implementation const& entry, tracing::tracer const* traces = nullptr, bool has_relay = true)
        : service_{std::move(service)}, counts_{counts}, steps_{steps}, entry_{entry}, traces_{traces}, has_relay_{
                                                                                                            has_relay}
    {}

    /// Asks no database and takes no lock that a lane holds for long. `parts`: null until the process serves.
    /// Threads: any.
    std::string text(served_parts const* parts) const;

private:
    std::string const service_;
    process_metrics const& counts_;
    runtime::registry const& steps_;
    entry::implementation const& entry_;
    tracing::tracer const* traces_;
    bool const has_relay_;
    std::chrono::steady_clock::time_point const since_{std::chrono::steady_clock::now()};
};

}  // namespace skald::worker_detail
