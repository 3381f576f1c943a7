// Maintenance: a worker's own slow thread, for periodic work that belongs to no other thread. It purges records of
// sagas that ended long ago, measures the outbox for the HTTP entry, sends users' messages again for which no queue was
// bound, reads the figures of /metrics, and writes how often steps were delivered.
//
// It has its own thread and connection, not the relay's: a purge of a large table would hold messages up, and a relay
// that waits for the broker would hold the purge up.
#pragma once

#include "admin/figure_reader.hpp"
#include "core/log.hpp"
#include "metrics/database_figures.hpp"
#include "postgres/connection.hpp"
#include "postgres/low_water.hpp"
#include "runtime/backlog.hpp"
#include "runtime/deliveries_seen.hpp"
#include "runtime/stop_flag.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

namespace skald::admin {

/// What one batch of a purge did; see skald.purge() in sql/migrations/0008_retention.sql.
struct purged
{
    std::int64_t asked{};    // sagas whose services were asked to expire their records
    std::int64_t sagas{};    // sagas of this home that are gone, with all their records
    std::int64_t answers{};  // responses to requests that started no saga
    std::int64_t expired{};  // other homes' sagas whose records here are gone
    std::int64_t records{};  // rows, in total
    bool postponed{};        // nothing was checked: the outbox holds too much

    bool did_something() const { return asked + sagas + answers + expired > 0; }
    purged& operator+=(purged const& more);
};

/// One batch of each kind, in a transaction of its own. Throws what pqxx throws; `c` may then have that transaction
/// open, and can only be closed. `outbox_from`: a time before which the outbox is known to be empty, as PostgreSQL
/// writes it (postgres::low_water); waiting rows are counted from there, and not over the dead rows before it.
purged purge_batch(postgres::connection& c, int retention_days, int batch_max,
                   std::string const& outbox_from = "-infinity");

/// What one batch of a purge of large bodies did.
struct purged_bodies
{
    std::int64_t gone{};
    bool is_all{};  // nothing is left to do now
};

/// Removes large bodies that nothing has referred to for that long: those in the database, then those in the store of
/// the service, if it has one apart. A batch, which goes on behind `at`. Throws what pqxx throws, and ports::fault.
purged_bodies purge_bodies(postgres::connection& c, ports::body_store* apart, int retention_days,
                           ports::purge_place& at);

struct maintenance_options
{
    bool purge{true};
    int retention_days{30};
    int batch_max{500};
    std::chrono::milliseconds purge_every{60'000};
    std::chrono::milliseconds bodies_every{3'600'000};  // of those, at the end of a purge
    std::int64_t outbox_max{100'000};                   // 0: it is not measured
    std::chrono::milliseconds measure_every{1'000};
    bool reads_figures{};  // for /metrics
    std::chrono::milliseconds figures_every{5'000};
    std::chrono::milliseconds retry_every{1'000};  // a check for users' messages whose queue may exist now
};

/// Threads: run() on one thread.
class maintenance
{
public:
    maintenance(maintenance_options options, postgres::connection_options database, runtime::backlog& backlog,
                metrics::database_figures& figures, runtime::deliveries_seen& seen, runtime::stop_flag const& stop,
                core::logger& log, std::mt19937_64 random);

    /// Runs until `stop`. An unavailable database is retried with backoff and not logged: the lanes do that.
    void run();

private:
    using clock = std::chrono::steady_clock;

    bool try_to_work();
    void measure();
    void retry_unrouted();
    void read_figures();
    void try_to_purge();
    void purge_one_batch();
    void end_purge();
    void purge_bodies();
    static clock::time_point after_rest(clock::time_point began);
    void log_figures(std::string const& why_not);
    void log_backlog(bool over);
    void log_postponed(bool postponed);

    maintenance_options options_;
    postgres::connection_options database_;
    runtime::backlog& backlog_;
    metrics::database_figures& figures_;
    figure_reader reader_{figures_};
    runtime::deliveries_seen& seen_;
    runtime::stop_flag const& stop_;
    core::logger& log_;
    std::mt19937_64 random_;
    std::unique_ptr<postgres::connection> connection_;
    clock::time_point purge_at_;
    clock::time_point bodies_at_{};
    clock::time_point measure_at_{};
    clock::time_point retry_at_{};
    clock::time_point figures_at_{};
    postgres::low_water mark_;
    purged purged_;
    ports::purge_place bodies_place_;
    int failures_in_a_row_{};
    int figures_missed_{};  // in a row
    bool is_postponed_{};   // the purge
};

}  // namespace skald::admin
