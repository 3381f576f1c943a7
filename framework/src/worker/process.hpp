// The parts of a running worker process: the lanes, the publish loops and the HTTP side, each on its own threads and
// connections. They share nothing except the transport's bounded queues.
#pragma once

#include "core/log.hpp"
#include "core/signature.hpp"
#include "entry/entry.hpp"
#include "http/server.hpp"
#include "ports/transport.hpp"
#include "postgres/connection.hpp"
#include "postgres/migrate.hpp"
#include "postgres/postgres_outbox.hpp"
#include "postgres/postgres_started.hpp"
#include "runtime/backlog.hpp"
#include "runtime/dispatcher.hpp"
#include "runtime/memory_source.hpp"
#include "runtime/publish_loop.hpp"
#include "runtime/registry.hpp"
#include "runtime/started_loop.hpp"
#include "runtime/stop_flag.hpp"
#include "runtime/table_source.hpp"
#include "tracing/exporter.hpp"
#include "worker/health.hpp"
#include "worker/metrics_page.hpp"
#include "worker/outage_log.hpp"
#include "worker/signals.hpp"

#include <skald/config.hpp>
#include <skald/detail/body_store_maker.hpp>
#include <skald/detail/transport_maker.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace skald::worker_detail {

/// What libraries beside skald::skald make for a service that names them; each may be empty.
struct made_elsewhere
{
    detail::body_store_maker bodies;  // where SKALD_BODY_STORE is S3
    detail::transport_maker kafka;
};

/// Threads: one.
class process
{
public:
    /// `limits`: of the service's dependencies.
    process(std::string service, config const& settings, runtime::registry const& steps,
            std::map<std::string, dependency_limits> const& limits, entry::implementation& entry,
            runtime::stop_flag& stop, core::logger& log, tracing::tracer* traces, made_elsewhere const& makers);
    ~process();

    /// From now on responds at the health address, if the settings have one: start() may come much later. Throws
    /// std::runtime_error if it can't listen on the address.
    void open_health();

    /// Runs the migrations; waits while the database is away. False if it was told to stop meanwhile.
    bool prepare_database(std::vector<postgres::migration> const& migrations, signals const& signals);

    /// Takes deliveries and requests, and sends messages.
    void start();

    /// To be called periodically while the process runs: reports steps that do not return.
    void supervise() { work_->check_for_slow(); }

    /// Stops taking deliveries, finishes, acks and ends the threads. False if that took longer than settings.drain or
    /// another signal came: then the process must exit at once, because threads may still be running.
    bool drain(signals const& signals);

private:
    /// What a publish loop needs, with a thread and a broker connection of its own.
    struct publishing
    {
        runtime::publish_source& source;
        std::unique_ptr<ports::publisher> publisher;
        runtime::stop_flag stop;  // set after the lanes have ended
        std::shared_ptr<metrics::publish_metrics> counts;
        std::atomic<int> running{};

        void end();
    };

    core::key_ring const* keys() const { return keys_ ? &*keys_ : nullptr; }
    std::string name_of(std::string_view role) const;
    postgres::connection_options database(std::string_view role) const;
    void run_lane();
    void start_publishing(publishing& loop, runtime::publish_options options);
    void run_maintenance();
    std::vector<postgres::hosted_step_name> hosted_names() const;
    std::vector<postgres::hosted_handler_name> handler_names() const;
    std::vector<ports::handler_queue> handler_queues() const;
    void start_thread(std::function<void()> code);  // one that stops with the lanes
    void start_calls();
    void run_settles();
    bool wait_for_threads(signals const& signals, std::chrono::steady_clock::time_point deadline);

    std::string const service_;
    config const& settings_;
    runtime::registry const& steps_;
    std::map<std::string, dependency_limits> const& limits_;
    entry::implementation& entry_;  // open from start() to the end of drain()
    runtime::stop_flag& stop_;
    core::logger& log_;
    outage_log broker_log_{log_};
    tracing::tracer* const traces_;  // null: none are made
    detail::body_store_maker const make_bodies_;
    std::optional<core::key_ring> const keys_;  // if messages are signed
    std::random_device seed_;
    std::string database_id_;
    std::optional<std::chrono::sys_seconds> forgot_before_;  // as of the start
    std::shared_ptr<ports::body_store> bodies_;
    process_metrics counts_;
    std::shared_ptr<postgres::server_state> server_{std::make_shared<postgres::server_state>()};
    std::shared_ptr<postgres::database_identity> identity_{std::make_shared<postgres::database_identity>()};
    runtime::backlog backlog_;
    std::shared_ptr<postgres::low_water> mark_{std::make_shared<postgres::low_water>()};
    postgres::postgres_outbox relayed_, relayed_too_;  // the second one connects only when there is a backlog
    postgres::postgres_outbox dispatched_;
    runtime::table_source table_;
    runtime::memory_source out_;
    postgres::postgres_started started_rows_, heartbeats_;
    std::unique_ptr<runtime::started_loop> started_;  // if a step of the service needs it
    std::unique_ptr<ports::transport> transport_;
    metrics_page page_{service_, counts_, steps_, entry_, traces_, settings_.relay};
    std::unique_ptr<ports::subscription> deliveries_;
    std::optional<runtime::delivery_recording> recording_;
    std::unique_ptr<runtime::dispatcher> work_;
    publishing memory_loop_{out_, {}, {}, counts_.dispatch, {}};
    publishing table_loop_{table_, {}, {}, counts_.relay, {}};
    std::unique_ptr<http::server> http_;
    std::optional<served_parts> parts_;
    std::unique_ptr<health> health_;  // after all that it shows
    std::unique_ptr<tracing::exporter> exporter_;
    std::atomic<int> lanes_running_{};  // includes all threads that stop with them
    std::vector<std::jthread> threads_;
};

}  // namespace skald::worker_detail
