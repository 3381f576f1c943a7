#include "admin/maintenance.hpp"

#include "admin/delivery_recorder.hpp"
#include "core/backoff.hpp"
#include "core/failpoint.hpp"
#include "postgres/faults.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <pqxx/pqxx>

#include <algorithm>

namespace skald::admin {
namespace {

using namespace std::chrono_literals;

// Between two batches it rests this many times as long as the last one took, so that a purge never takes more than a
// fifth of one connection, however large the table and however slow the disk.
constexpr int rest_factor = 4;
constexpr std::chrono::milliseconds rest_least = 50ms;

// Of large bodies a batch has so many of one place, and so much time, and then something else may have its turn.
constexpr std::int64_t bodies_max = 1'000;
constexpr auto bodies_turn = 1s;

// The same for the figures: a hundredth, but they are read again well before they count as unknown.
constexpr int figures_rest_factor = 100;
constexpr std::chrono::milliseconds figures_rest_max = 30s;
static_assert(2 * figures_rest_max <= metrics::figures_age_max);
constexpr int figures_missed_max = 3;

}  // namespace

purged& purged::operator+=(purged const& more)
{
    asked += more.asked;
    sagas += more.sagas;
    answers += more.answers;
    expired += more.expired;
    records += more.records;
    postponed = more.postponed;
    return *this;
}

purged purge_batch(postgres::connection& c, int retention_days, int batch_max, std::string const& outbox_from)
{
    auto const rows =
        c.run("BEGIN;" + postgres::execute(queries::purge{
                             .retention_days = retention_days, .sagas_max = batch_max, .outbox_from = outbox_from}));
    auto const& row = rows[0];
    auto const count = [&](char const* what) { return row[what].as<std::int64_t>(); };
    purged const done{.asked = count("asked"),
                      .sagas = count("sagas"),
                      .answers = count("answers"),
                      .expired = count("expired"),
                      .records = count("records"),
                      .postponed = row["postponed"].as<bool>()};
    SKALD_FAILPOINT_IF(done.asked > 0, "purge.asked");
    SKALD_FAILPOINT_IF(done.expired > 0, "purge.expired");
    SKALD_FAILPOINT_IF(done.sagas > 0, "purge.collected");
    SKALD_FAILPOINT_IF(done.did_something(), "purge.committing");
    c.run("COMMIT");
    SKALD_FAILPOINT_IF(done.did_something(), "purge.committed");
    return done;
}

purged_bodies purge_bodies(postgres::connection& c, ports::body_store* apart, int retention_days,
                           ports::purge_place& at)
{
    auto const older_than = std::chrono::seconds{std::chrono::hours{24} * retention_days};
    auto const own =
        c.run(postgres::execute(queries::purge_bodies{.older_than = older_than.count(), .most = bodies_max}));
    purged_bodies done{own[0]["gone"].as<std::int64_t>(), own[0]["is_all"].as<bool>()};
    if (apart == nullptr || !done.is_all) return done;
    auto const is_in_use = [&c](core::body_reference const& what) {
        return c.run(postgres::execute(queries::body_is_in_use{.name = what.name()}))[0]["is_in_use"].as<bool>();
    };
    done.gone += static_cast<std::int64_t>(apart->purge(older_than, bodies_max, is_in_use, at));
    done.is_all = at.after.empty();
    return done;
}

maintenance::maintenance(maintenance_options options, postgres::connection_options database, runtime::backlog& backlog,
                         metrics::database_figures& figures, runtime::deliveries_seen& seen,
                         runtime::stop_flag const& stop, core::logger& log, std::mt19937_64 random)
    : options_{options}, database_{std::move(database)}, backlog_{backlog}, figures_{figures}, seen_{seen}, stop_{stop},
      log_{log}, random_{random}
{
    // Not all processes of a service at once, and none while it is still starting.
    purge_at_ = clock::now() + core::backoff{options_.purge_every, options_.purge_every}.wait(1, random_);
}

void maintenance::run()
{
    core::backoff const backoff{1s, 30s};
    for (auto pause = 0ms; !stop_.wait(pause);) {
        if (!try_to_work()) {
            pause = backoff.wait(++failures_in_a_row_, random_);
            continue;
        }
        failures_in_a_row_ = 0;
        auto next = retry_at_;
        if (options_.purge) next = std::min(next, purge_at_);
        if (options_.outbox_max > 0) next = std::min(next, measure_at_);
        if (options_.reads_figures) next = std::min(next, figures_at_);
        pause = std::max(std::chrono::ceil<std::chrono::milliseconds>(next - clock::now()), 0ms);
    }
}

bool maintenance::try_to_work()
try {
    auto const now = clock::now();
    bool const measures = options_.outbox_max > 0 && now >= measure_at_;
    bool const purges = options_.purge && now >= purge_at_;
    bool const retries = now >= retry_at_;
    bool const reads = options_.reads_figures && now >= figures_at_;
    if (!measures && !purges && !retries && !reads) return true;
    if (!connection_ || !connection_->is_usable()) {
        connection_.reset();
        connection_ = std::make_unique<postgres::connection>(database_);
    }
    if (measures) measure();
    if (retries) {
        retry_unrouted();
        record_deliveries(*connection_, seen_);
    }
    if (reads) read_figures();
    if (purges) try_to_purge();
    figures_.connected(true);
    return true;
}
catch (std::exception const& error) {
    // Whatever it was, a new connection is never wrong: the database may have become read-only, or be another one.
    if (connection_ && connection_->is_open()) log_.warning("purge.failed", {{"error", error.what()}});
    connection_.reset();
    figures_.connected(false);
    return false;
}

// What the purge can't do keeps nothing else from its turn, and does not mean that the database is away.
void maintenance::try_to_purge()
try {
    purge_one_batch();
}
catch (std::exception const& error) {
    if (!connection_->is_open()) throw;
    log_.warning("purge.failed", {{"error", error.what()}});
    connection_.reset();  // its transaction may be open
    purge_at_ = clock::now() + options_.purge_every;
}

void maintenance::measure()
{
    auto const began = clock::now();
    mark_.raise(*connection_, began);
    auto const rows = connection_->run(postgres::execute(
        queries::outbox_is_over{.rows_max = options_.outbox_max, .outbox_from = mark_.search_from(began)}));
    auto const ended = clock::now();
    mark_.searched(began, ended, false);
    log_backlog(rows[0]["is_over"].as<bool>());
    measure_at_ = ended + options_.measure_every;
}

void maintenance::retry_unrouted()
{
    for (auto const& row : connection_->run(postgres::execute("retry_unrouted")))
        log_.info("event.routed", {{"destination", row["destination"].c_str()}});
    retry_at_ = clock::now() + options_.retry_every;
}

void maintenance::read_figures()
{
    auto const began = clock::now();
    mark_.raise(*connection_, began);
    log_figures(reader_.read(*connection_, mark_.mark()));
    auto const ended = clock::now();
    auto const rest = std::min<clock::duration>(figures_rest_factor * (ended - began), figures_rest_max);
    figures_at_ = std::max(began + options_.figures_every, ended + rest);
}

// Logged once per change. A lock that is there once or twice is none: a table is altered, say.
void maintenance::log_figures(std::string const& why_not)
{
    if (why_not.empty()) {
        if (figures_missed_ >= figures_missed_max) log_.info("figures.known", {});
        figures_missed_ = 0;
    }
    else if (++figures_missed_ == figures_missed_max) log_.warning("figures.unknown", {{"error", why_not}});
}

// Logged once per change.
void maintenance::log_backlog(bool over)
{
    if (over == backlog_.is_over()) return;
    backlog_.set(over);
    if (over) log_.warning("outbox.over", {{"rows_max", options_.outbox_max}});
    else log_.info("outbox.below", {{"rows_max", options_.outbox_max}});
}

// Logged when it begins, not at each pass.
void maintenance::log_postponed(bool postponed)
{
    if (postponed && !is_postponed_)
        log_.warning("purge.postponed", {{"hint", "`skald outbox status` says what waits in the outbox, and why"}});
    is_postponed_ = postponed;
}

void maintenance::purge_one_batch()
{
    auto const began = clock::now();
    mark_.raise(*connection_, began);  // even if nothing is measured
    auto const done = purge_batch(*connection_, options_.retention_days, options_.batch_max, mark_.mark());
    log_postponed(done.postponed);
    purged_ += done;
    if (!done.did_something()) return end_purge();
    purge_at_ = after_rest(began);
}

maintenance::clock::time_point maintenance::after_rest(clock::time_point began)
{
    auto const now = clock::now();
    return now + std::max<clock::duration>((now - began) * rest_factor, rest_least);
}

void maintenance::end_purge()
{
    if (purged_.did_something())
        log_.info("purge.done", {{"asked", purged_.asked},
                                 {"sagas", purged_.sagas},
                                 {"answers", purged_.answers},
                                 {"expired", purged_.expired},
                                 {"records", purged_.records}});
    purged_ = {};
    purge_at_ = clock::now() + options_.purge_every;
    if (clock::now() >= bodies_at_) purge_bodies();
}

// A store that can't be reached stops nothing else.
void maintenance::purge_bodies()
try {
    auto const began = clock::now();
    bodies_at_ = began + options_.bodies_every;
    bodies_place_.is_over = [this, began] { return stop_.stopped() || clock::now() - began >= bodies_turn; };
    auto const done = admin::purge_bodies(*connection_, database_.bodies.get(), options_.retention_days, bodies_place_);
    database_.body_counts->removed.add(static_cast<std::uint64_t>(done.gone));
    if (done.gone > 0) log_.info("bodies.purged", {{"bodies", done.gone}});
    if (!done.is_all) purge_at_ = bodies_at_ = after_rest(began);
}
catch (ports::fault const& met) {
    log_.warning("bodies.not_purged", {{"error", met.what()}});
}

}  // namespace skald::admin
