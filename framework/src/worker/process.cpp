#include "worker/process.hpp"

#include "admin/maintenance.hpp"
#include "core/backoff.hpp"
#include "core/text.hpp"
#include "postgres/conninfo.hpp"
#include "postgres/faults.hpp"
#include "postgres/postgres_store.hpp"
#include "runtime/lane.hpp"
#include "runtime/publish_loop.hpp"
#include "worker/body_stores.hpp"
#include "worker/http_server.hpp"
#include "worker/signing_keys.hpp"
#include "worker/stored_check.hpp"
#include "worker/transports.hpp"

#include <skald/errors.hpp>

#include <nlohmann/json.hpp>
#include <pqxx/except>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include <unistd.h>

namespace skald::worker_detail {
namespace {

using namespace std::chrono_literals;

// Of started steps: who sees it looks for the process there.
std::string pid_and_host()
{
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
    return std::to_string(::getpid()) + '@' + host.data();
}

// Why the database can't be had yet, where another try may find it otherwise; nothing where the process can't start.
// Each of the statements may be done again, whether its COMMIT in doubt was one or not. To be called in a catch block.
std::optional<std::string> why_to_wait(std::string const& database_url, std::exception const& error)
{
    if (dynamic_cast<pqxx::broken_connection const*>(&error) != nullptr)
        return postgres::why_not_connected(database_url, error.what());
    auto const said = core::in_one_line(error.what());
    if (postgres::says_blocked()) return "another session holds a lock that the start needs: " + said;
    bool const may_pass = postgres::may_pass() || dynamic_cast<postgres::migration_blocked const*>(&error) != nullptr ||
                          dynamic_cast<postgres::schema_behind const*>(&error) != nullptr;
    return may_pass ? std::optional{said} : std::nullopt;
}

}  // namespace

process::process(std::string service, config const& settings, runtime::registry const& steps,
                 std::map<std::string, dependency_limits> const& limits, entry::implementation& entry,
                 runtime::stop_flag& stop, core::logger& log, tracing::tracer* traces, made_elsewhere const& makers)
    : service_{std::move(service)}, settings_{settings}, steps_{steps}, limits_{limits}, entry_{entry}, stop_{stop},
      log_{log}, traces_{traces}, make_bodies_{makers.bodies}, keys_{settings.migrate_only
                                                                         ? std::nullopt
                                                                         : read_signing_keys(settings)},
      relayed_{database("relay"), mark_}, relayed_too_{database("relay"), mark_}, dispatched_{database("dispatch")},
      table_{settings.relay_poll, {relayed_, relayed_too_}}, out_{{.grace_period = settings.dispatch_grace,
                                                                   .bodies = body_rules_of(service_, settings)},
                                                                  &dispatched_,
                                                                  &table_},
      started_rows_{database("calls")}, heartbeats_{database("heartbeats")},
      transport_{make_transport(service_, "skald/" + service_, settings, database("inbox"), broker_log_, makers.kafka)}
{
    postgres::check_settings(settings_.database_url);
    postgres::refuse_read_only(settings_.database_url);
    // When a peer closes a socket, this process must get an error code and not be killed.
    std::signal(SIGPIPE, SIG_IGN);
}

process::~process()
{
    stop_.stop();
    if (started_) started_->stop();
    health_.reset();  // it shows what is destroyed next
    http_.reset();
    entry_.close(std::chrono::steady_clock::now() + settings_.drain);
    memory_loop_.end();
    table_loop_.end();
    if (deliveries_) deliveries_->stop();
}

std::string process::name_of(std::string_view role) const
{
    return "skald/" + service_ + '/' + std::string{role};
}

postgres::connection_options process::database(std::string_view role) const
{
    postgres::connection_options options;
    options.url = settings_.database_url;
    options.application_name = name_of(role);
    options.lock_timeout = settings_.lock_timeout;
    options.statement_timeout = settings_.statement_timeout;
    options.commit_timeout = settings_.commit_timeout;
    options.server = server_;
    options.database = identity_;
    options.bodies = bodies_;
    options.body_counts = counts_.bodies;
    return options;
}

void process::open_health()
{
    if (!has_health_address(settings_)) return;
    health_ = std::make_unique<health>(settings_, database("health"), page_, log_);
    health_->start();
    log_.info("worker.starting", {{"health", health_->address()}});
}

bool process::prepare_database(std::vector<postgres::migration> const& migrations, signals const& signals)
{
    std::mt19937_64 random{seed_()};
    core::backoff const backoff{500ms, 10s};
    std::vector<std::string> applied;
    bool was_behind = false;  // the schema: what is migrated meanwhile is granted after that
    for (int failures = 1;; ++failures) {
        try {
            if (settings_.migrate)
                for (auto& name : postgres::migrate(settings_.database_url, service_, migrations))
                    applied.push_back(std::move(name));
            auto const owned = postgres::own_database(settings_.database_url, service_);
            for (auto const& name : std::exchange(applied, {}))
                log_.info("database.migrated", {{"migration", name}, {"database", owned.place}});
            database_id_ = owned.database;
            forgot_before_ = owned.forgot_before;
            identity_->starts_as(owned.identity);
            if (!settings_.migrate_only) {
                check_stored_at_start(settings_, service_, steps_, database("start"), log_);
                postgres::record_hosted(settings_.database_url, hosted_names(), handler_names());
            }
            return true;
        }
        catch (pqxx::insufficient_privilege const& error) {
            std::string_view const said{error.what()};  // on further lines the functions that it happened in
            auto const why = std::string{said.substr(0, said.find('\n'))} +
                             " (`skald migrate --grant ROLE` grants what a service needs)";
            if (!was_behind) throw configuration_error{why};
            log_.warning("database.waiting", {{"attempts", failures}, {"error", why}});
        }
        catch (std::exception const& error) {
            auto const why = why_to_wait(settings_.database_url, error);
            if (!why) throw;
            was_behind = was_behind || dynamic_cast<postgres::schema_behind const*>(&error) != nullptr;
            log_.warning("database.waiting", {{"attempts", failures}, {"error", *why}});
        }
        if (signals.wait(backoff.wait(failures, random)) || stop_.stopped()) return false;
    }
}

void process::start()
{
    bodies_ = make_body_store(service_, database_id_, settings_, make_bodies_);
    // Even a service without steps must receive what other services report about its sagas.
    auto const prefetch = static_cast<std::uint16_t>(
        std::min<std::size_t>(settings_.prefetch + steps_.prefetch(), std::numeric_limits<std::uint16_t>::max()));
    deliveries_ = transport_->subscribe({service_, prefetch, database_id_, handler_queues(), forgot_before_});
    if (!settings_.record_deliveries.empty()) recording_.emplace(settings_.record_deliveries, log_);
    work_ = std::make_unique<runtime::dispatcher>(
        runtime::dispatcher_options{.lanes = settings_.lanes,
                                    .batch_max = settings_.batch_max,
                                    .keys = keys(),
                                    .must_be_signed = settings_.signatures == "require",
                                    .recording = recording_ ? &*recording_ : nullptr},
        service_, steps_, *deliveries_, log_, std::mt19937_64{seed_()});
    if (!settings_.http_listen.empty()) http_ = make_server(settings_, entry_, log_);
    if (traces_ != nullptr)
        exporter_ = std::make_unique<tracing::exporter>(
            tracing::exporter_options{.endpoint = settings_.otlp_endpoint, .service = service_}, *traces_, log_);
    if (runtime::started_loop::is_needed(steps_)) start_calls();
    entry_.open({database("http"), *deliveries_, backlog_, out_, database_id_, &steps_, [this] {
                     if (started_) started_->notify();
                 }});
    // Without its own relay this process sends nothing from memory either: everything is left to a relay elsewhere.
    if (settings_.relay)
        start_publishing(table_loop_, {.batch_max = settings_.relay_batch_max, .sign_with = keys(), .traces = traces_});
    if (settings_.relay && settings_.dispatch_grace.count() > 0)
        start_publishing(memory_loop_, {.sign_with = keys(), .traces = traces_});
    start_thread([this] { run_maintenance(); });
    for (std::size_t i = 0; i < settings_.lanes; ++i) start_thread([this] { run_lane(); });
    if (http_) http_->start();
    parts_.emplace(served_parts{*deliveries_, http_.get(), started_.get()});
    if (health_) health_->begin_service(*parts_);
    if (keys_) log_signing(settings_, *keys_, log_);
    std::string const off{"off"};
    log_.info("worker.started", {{"lanes", settings_.lanes},
                                 {"prefetch", prefetch},
                                 {"broker", deliveries_->available() ? "connected" : "away"},
                                 {"http", http_ ? http_->address() : off},
                                 {"health", health_ ? health_->address() : off}});
}

std::vector<postgres::hosted_step_name> process::hosted_names() const
{
    std::vector<postgres::hosted_step_name> all;
    steps_.for_each([&](auto const&, auto const& name, runtime::registered_step const& one) {
        if (one.handles) return;
        auto const* const work = one.step->external(true);
        all.push_back({name, work != nullptr && work->takes_signal()});
    });
    return all;
}

std::vector<postgres::hosted_handler_name> process::handler_names() const
{
    std::vector<postgres::hosted_handler_name> all;
    for (auto const& one : handler_queues()) {
        auto bindings = nlohmann::json::array();
        for (auto const& to : one.bindings)
            bindings.push_back({{"exchange", to.exchange}, {"routing_key", to.routing_key}, {"type", to.type}});
        all.push_back({one.handler, bindings.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
    }
    return all;
}

std::vector<ports::handler_queue> process::handler_queues() const
{
    std::vector<ports::handler_queue> all;
    steps_.for_each([&](auto const&, auto const& name, runtime::registered_step const& one) {
        if (!one.handles) return;
        auto const prefetch =
            std::min<std::size_t>(settings_.prefetch + one.options.prefetch, std::numeric_limits<std::uint16_t>::max());
        all.push_back({name, static_cast<std::uint16_t>(prefetch), one.handles->bind});
    });
    return all;
}

void process::start_thread(std::function<void()> code)
{
    ++lanes_running_;
    threads_.emplace_back([this, code = std::move(code)] {
        code();
        --lanes_running_;
    });
}

// Before the lanes and requests, which report to it.
void process::start_calls()
{
    started_ = std::make_unique<runtime::started_loop>(
        runtime::started_options{.owner = name_of(pid_and_host()), .calls = settings_.calls}, service_, steps_, limits_,
        started_rows_, heartbeats_, log_);
    start_thread([this] { started_->run(); });
    for (std::size_t i = 0; i < settings_.calls; ++i) start_thread([this] { started_->run_calls(); });
    // What is recorded takes a fraction of what a call takes.
    for (std::size_t i = 0; i < std::min<std::size_t>(settings_.calls, 2); ++i) start_thread([this] { run_settles(); });
}

void process::run_settles()
{
    postgres::postgres_store store{database("settle")};
    runtime::executor executor{service_,      store,  out_, log_, std::mt19937_64{std::random_device{}()},
                               counts_.lanes, traces_};
    started_->run_settles(executor);
}

void process::run_lane()
{
    postgres::postgres_store store{database("lane")};
    runtime::executor executor{service_,      store,  out_, log_, std::mt19937_64{std::random_device{}()},
                               counts_.lanes, traces_};
    if (started_) executor.on_started([this] { started_->notify(); });
    runtime::lane{std::move(executor), *work_, *deliveries_, stop_, log_}.run();
}

void process::start_publishing(publishing& loop, runtime::publish_options options)
{
    loop.publisher = transport_->open_publisher();
    options.counts = loop.counts;
    ++loop.running;
    threads_.emplace_back([this, &loop, options] {
        runtime::publish_loop{options,   loop.source, *loop.publisher,
                              loop.stop, log_,        std::mt19937_64{std::random_device{}()}}
            .run();
        --loop.running;
    });
}

void process::publishing::end()
{
    stop.stop();
    source.wake();
}

void process::run_maintenance()
{
    admin::maintenance_options options;
    options.purge = settings_.purge;
    options.retention_days = settings_.retention_days;
    options.purge_every = settings_.purge_every;
    options.outbox_max = entry_.has_handlers() ? settings_.outbox_max : 0;
    options.reads_figures = health_ != nullptr;
    admin::maintenance{options,
                       database("maintenance"),
                       backlog_,
                       counts_.figures,
                       counts_.lanes->seen,
                       stop_,
                       log_,
                       std::mt19937_64{std::random_device{}()}}
        .run();
}

bool process::drain(signals const& signals)
{
    log_.info("worker.draining", {});
    auto const deadline = std::chrono::steady_clock::now() + settings_.drain;
    if (health_) health_->begin_drain();
    bool clean = !http_ || http_->drain(settings_.drain / 2);
    clean = entry_.close(std::chrono::steady_clock::now() + settings_.drain / 2) && clean;
    stop_.stop();
    if (started_) started_->stop();
    deliveries_->stop();
    clean = wait_for_threads(signals, deadline) && clean;
    if (clean) health_.reset();      // it reads the state of deliveries_
    if (clean) deliveries_.reset();  // sends the last acks
    if (clean) exporter_.reset();    // sends the last spans
    log_.info("worker.stopped", {{"clean", clean ? "yes" : "no"}});
    // A thread that is stuck in a step can't be stopped; what it did not commit never happened.
    if (!clean) std::_Exit(75);
    return clean;
}

// The lanes first, then memory, then the table, so that the lanes' last commits are still sent and deleted.
bool process::wait_for_threads(signals const& signals, std::chrono::steady_clock::time_point deadline)
{
    auto const ended = [&](std::atomic<int> const& running) {
        while (running > 0) {
            if (std::chrono::steady_clock::now() > deadline) return false;
            if (signals.wait(5ms)) return false;
        }
        return true;
    };
    if (!ended(lanes_running_)) return false;
    memory_loop_.end();
    if (!ended(memory_loop_.running)) return false;
    table_loop_.end();
    return ended(table_loop_.running);
}

}  // namespace skald::worker_detail
