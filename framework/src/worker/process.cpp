#include "worker/process.hpp"

#include "admin/housekeeper.hpp"
#include "core/backoff.hpp"
#include "postgres/postgres_outbox.hpp"
#include "postgres/postgres_store.hpp"
#include "runtime/lane.hpp"
#include "runtime/relay.hpp"
#include "runtime/sender.hpp"

#include <skald/errors.hpp>

#include <pqxx/except>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <limits>

namespace skald::worker_detail {
namespace {

using namespace std::chrono_literals;

rabbitmq::options broker_of(config const& settings)
{
    rabbitmq::options options;
    options.url = settings.amqp_url;
    options.connection_name = "skald/" + settings.service;
    return options;
}

}  // namespace

process::process(config const& settings, runtime::registry const& steps, runtime::stop_flag& stop, core::logger& log)
    : settings_{settings}, steps_{steps}, limits_{steps.lane_limits()}, stop_{stop}, log_{log},
      out_{{.head_start = settings.head_start}}, transport_{broker_of(settings), log}
{
    // A peer that closes a socket is an error code here, not the end of the process.
    std::signal(SIGPIPE, SIG_IGN);
}

process::~process()
{
    stop_.stop();
    sender_stop_.stop();
    if (sender_publisher_) sender_publisher_->interrupt();
    relay_stop_.stop();
    out_.notify();
    if (deliveries_) deliveries_->stop();
}

std::string process::name_of(std::string_view role) const
{
    return "skald/" + settings_.service + '/' + std::string{role};
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
    return options;
}

bool process::prepare_database(std::vector<postgres::migration> const& migrations, signals const& signals)
{
    std::mt19937_64 random{seed_()};
    core::backoff const backoff{500ms, 10s};
    for (int failures = 1;; ++failures) {
        try {
            if (settings_.migrate)
                for (auto const& name : postgres::migrate(settings_.database_url, settings_.service, migrations))
                    log_.info("database.migrated", {{"migration", name}});
            else postgres::own_database(settings_.database_url, settings_.service);
            return true;
        }
        catch (pqxx::broken_connection const& error) {
            log_.warning("database.waiting", {{"attempts", failures}, {"error", error.what()}});
        }
        if (signals.wait(backoff.wait(failures, random)) || stop_.stopped()) return false;
    }
}

void process::start(std::vector<http::entry_route> routes, http::scope_function scope_of)
{
    // A service with no steps still takes what the other services report of its sagas.
    auto const prefetch = static_cast<std::uint16_t>(
        std::min<std::size_t>(settings_.prefetch + steps_.prefetch(), std::numeric_limits<std::uint16_t>::max()));
    deliveries_ = transport_.subscribe(settings_.service, prefetch);
    if (!settings_.http_listen.empty())
        web_ = std::make_unique<web>(settings_, database("http"), std::move(routes), std::move(scope_of), *deliveries_,
                                     backlog_, out_, log_);
    if (settings_.relay) start_relay();
    ++lanes_running_;
    threads_.emplace_back([this] {
        run_housekeeper();
        --lanes_running_;
    });
    for (std::size_t i = 0; i < settings_.lanes; ++i) {
        ++lanes_running_;
        threads_.emplace_back([this] {
            run_lane();
            --lanes_running_;
        });
    }
    if (web_) web_->start();
    log_.info(
        "worker.started",
        {{"lanes", settings_.lanes}, {"prefetch", prefetch}, {"http", web_ ? web_->address() : std::string{"off"}}});
}

void process::run_lane()
{
    postgres::postgres_store store{database("lane")};
    runtime::executor executor{settings_.service, steps_, store, out_, log_, std::mt19937_64{std::random_device{}()}};
    runtime::lane{std::move(executor),
                  *deliveries_,
                  settings_.batch_max,
                  limits_,
                  stop_,
                  log_,
                  std::mt19937_64{std::random_device{}()}}
        .run();
}

// Without a relay of its own nobody would delete what was handed over: then all is left to the relay elsewhere.
void process::start_relay()
{
    publisher_ = transport_.open_publisher();
    ++relays_running_;
    threads_.emplace_back([this] {
        run_relay();
        --relays_running_;
    });
    if (settings_.head_start.count() == 0) return;
    sender_publisher_ = transport_.open_publisher();
    ++senders_running_;
    threads_.emplace_back([this] {
        run_sender();
        --senders_running_;
    });
}

void process::run_sender()
{
    runtime::sender{{}, out_, *sender_publisher_, sender_stop_, log_}.run();
}

void process::run_relay()
{
    auto const mark = std::make_shared<postgres::low_water>();
    postgres::postgres_outbox outbox{database("relay"), mark};
    postgres::postgres_outbox other{database("relay"), mark};  // connects where there is a backlog
    runtime::relay_options options;
    options.batch_max = settings_.relay_batch_max;
    options.poll = settings_.relay_poll;
    runtime::relay{
        options, {outbox, other}, *publisher_, out_, relay_stop_, log_, std::mt19937_64{std::random_device{}()}}
        .run();
}

void process::run_housekeeper()
{
    admin::housekeeping_options options;
    options.sweep = settings_.sweep;
    options.retention_days = settings_.retention_days;
    options.sweep_every = settings_.sweep_every;
    options.outbox_max = web_ ? settings_.outbox_max : 0;
    admin::housekeeper{options, database("housekeeper"), backlog_, stop_, log_, std::mt19937_64{std::random_device{}()}}
        .run();
}

bool process::drain(signals const& signals)
{
    log_.info("worker.draining", {});
    auto const deadline = std::chrono::steady_clock::now() + settings_.drain;
    bool clean = !web_ || web_->drain(settings_.drain / 2);
    stop_.stop();
    deliveries_->stop();
    clean = wait_for_threads(signals, deadline) && clean;
    if (clean) deliveries_.reset();  // sends the last acks
    log_.info("worker.stopped", {{"clean", clean ? "yes" : "no"}});
    // A thread that is stuck in a step can't be stopped; what it did not commit never happened.
    if (!clean) std::_Exit(75);
    return clean;
}

// The lanes first, then the sender, then the relay, so that what the lanes committed last is sent and deleted.
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
    sender_stop_.stop();
    if (sender_publisher_) sender_publisher_->interrupt();
    if (!ended(senders_running_)) return false;
    relay_stop_.stop();
    out_.notify();
    return ended(relays_running_);
}

}  // namespace skald::worker_detail
