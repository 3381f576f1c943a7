#include "storm.hpp"

#include "plan.hpp"
#include "shop_processes.hpp"
#include "strangers.hpp"

#include "rig/findings.hpp"
#include "rig/http.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include <fmt/format.h>

namespace order_storm {
namespace {

using namespace std::chrono_literals;
using skald::rig::orders, skald::rig::service_count, skald::rig::service_names;

constexpr std::size_t faults_at_once_max = 3;
constexpr auto tick_length = 10ms;
constexpr auto between_refreshes = 500ms;
constexpr auto between_replays = 5s;
constexpr auto start_patience = 60s;
constexpr auto quiet_patience = 10s;
constexpr auto drain_patience = 25s;
constexpr int unfinished_shown = 10;

}  // namespace

storm::storm(settings const& chosen, skald::rig::signals const& interruptions)
    : chosen_{chosen}, interruptions_{interruptions}, database_operator_{chosen.stack_script, chosen.stack},
      broker_operator_{chosen.cluster.empty() ? database_operator_
                                              : server_operator{chosen.cluster_script, chosen.cluster}},
      plan_{draw_plan(chosen)}, kiosk_{chosen.shop.orders_database, take_kiosk_orders(plan_, chosen),
                                       std::chrono::duration<double>{chosen.minutes * 60}, chosen.seed},
      database_network_{chosen.shop.orders_database}, broker_network_{way_to_broker(chosen)},
      port_{skald::rig::find_free_port()}, load_{plan_, port_, chosen.clients, chosen.seed, chosen.orders_per_second}
{
    if (!chosen.gateway.empty())
        gateway_ = std::make_unique<skald::rig::gateway>(chosen.gateway, chosen.logs, chosen.seed);
    services_ = make_processes(chosen, {port_, kiosk_.database_url(), gateway_ ? gateway_->address() : ""},
                               database_network_, broker_network_);
    figures_.orders = order_count(chosen);
}

storm_summary storm::run()
{
    start_services();
    rage();
    calm_down();
    repeat_late();
    end_services();
    return conclude();
}

// --- The acts -------------------------------------------------------------------------------------------------------

void storm::start_services()
{
    figures_.phase = "starting the services";
    kiosk_.create_database();
    if (gateway_) gateway_->start();
    for (auto const& service : services_) service->start();
    auto const until = clock::now() + start_patience;
    auto const is_ready = [&] { return skald::rig::is_ready(port_); };
    skald::rig::shop_databases databases{chosen_.shop};
    for (std::size_t i = 0; i < service_count; ++i)
        while (!databases.has_tables(i) || !kiosk_.has_tables() || !is_ready()) {
            if (clock::now() > until)
                throw storm_failure{"the services were not ready in time:\n" + services_[i]->log_tail()};
            tick();
        }
    databases.fill(plan_);
    poison_charges(chosen_.shop.payments_database, gateway_ != nullptr);
    if (chosen_.transport == "rabbitmq") broker_operator_.flush_queue_directory();
}

void storm::rage()
{
    figures_.phase = "storm";
    load_.start_orders();
    kiosk_.open();
    random_source random{chosen_.seed};
    auto const only = kind_named(chosen_.only);
    if (!only && !chosen_.only.empty()) throw storm_failure{"there is no kind of fault called " + chosen_.only};
    auto const began = clock::now();
    auto const end =
        began + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>{chosen_.minutes * 60});
    auto next = draw_fault(only, chosen_.transport, random);
    for (auto due = clock::now() + draw_pause(random); clock::now() < end;) {
        tick();
        kiosk_.place_due();
        if (gateway_) gateway_->misbehave();
        if (clock::now() < due || !may_strike(next)) continue;
        strike(next);
        next = draw_fault(only, chosen_.transport, random);
        due = clock::now() + draw_pause(random);
    }
    summary_.stormed = std::chrono::duration_cast<milliseconds>(clock::now() - began);
}

/// The faults end, and from then on only a limited time may pass in which no saga ends.
void storm::calm_down()
{
    figures_.phase = "the faults have ended";
    if (gateway_) gateway_->behave();
    auto const patience = clock::now() + 60s;
    while (!striking_.empty()) {
        tick();
        if (clock::now() > patience) throw storm_failure{"a fault did not end; is there a server that does not start?"};
    }
    resume_all(chosen_.shop.orders_database);
    auto const began = clock::now();
    auto last_end = began;
    auto replay_from = began;
    while (!has_come_to_rest() && clock::now() - last_end < chosen_.calm_max) {
        kiosk_.place_due();
        if (clock::now() >= replay_from) {
            summary_.replayed += replay_deadly(chosen_.shop.payments_database);
            replay_from = clock::now() + between_replays;
        }
        auto const ended = census_.ended();
        tick();
        if (census_.ended() != ended) last_end = clock::now();
    }
    summary_.recovered = std::chrono::duration_cast<milliseconds>(clock::now() - began);
    if (has_come_to_rest()) return;
    progress_.note(fmt::format("for {} s nothing has ended; not ended:", chosen_.calm_max.count()));
    if (databases_)
        for (auto const& line : databases_->describe_unfinished(unfinished_shown)) progress_.note("  " + line);
    findings_.push_back(
        skald::rig::found("not at rest in time", {fmt::format("for {} s nothing ended", chosen_.calm_max.count())}));
}

void storm::repeat_late()
{
    figures_.phase = "late duplicates";
    load_.start_epilogue();
    auto const until = clock::now() + chosen_.calm_max;
    while (!load_.finished() && clock::now() < until) tick();
    while (!is_quiet() && clock::now() < until) tick();
    findings_.push_back(
        skald::rig::found("sessions that hold a transaction open", open_transactions(chosen_.shop.orders_database)));
}

void storm::end_services()
{
    figures_.phase = "ending the services";
    findings_.push_back(skald::rig::end_in_order(services_, interruptions_, drain_patience));
    findings_.push_back(skald::rig::found("services that ended by themselves", ended_by_themselves_));
}

storm_summary storm::conclude()
{
    progress_.finish();
    auto const told = skald::rig::found_by_clients(plan_, load_.records());
    findings_.insert(findings_.end(), told.begin(), told.end());
    databases_.emplace(chosen_.shop);
    auto const& counters = load_.counters();
    auto run = summary_;
    run.seed = chosen_.seed;
    run.commit = chosen_.commit.empty() ? "unknown" : chosen_.commit;
    run.postgres_version = pqxx::nontransaction{databases_->at(0)}.exec("SHOW server_version")[0][0].c_str();
    run.broker =
        chosen_.transport == "rabbitmq" ? "RabbitMQ " + broker_operator_.rabbitmq_version() : chosen_.transport;
    run.orders = figures_.orders;
    run.sent_twice = counters.sent_twice;
    run.answered_in_flight = counters.answered_in_flight;
    run.asked_again = counters.asked_again;
    count_deliveries(chosen_, run);
    run.killed_by_poison = killed_by_poison_;
    auto const elsewhere = kiosk_.ends();
    run.orders_elsewhere = static_cast<int>(elsewhere.size());
    run.outcome = skald::rig::judge(*databases_, plan_, load_.records(), elsewhere,
                                    gateway_ ? std::optional{gateway_->charges()} : std::nullopt);
    run.outcome.findings.insert(run.outcome.findings.end(), findings_.begin(), findings_.end());
    return run;
}

// --- Faults ---------------------------------------------------------------------------------------------------------

bool storm::may_strike(fault const& what) const
{
    if (what.on == target::everything) return striking_.empty();
    if (striking_.size() >= faults_at_once_max) return false;
    return std::ranges::none_of(
        striking_, [&](auto const& one) { return one.what.on == what.on || one.what.on == target::everything; });
}

void storm::strike(fault const& what)
{
    auto const where = what.on <= target::shipping ? fmt::format(" ({})", service_names[what.service]) : "";
    progress_.note(
        fmt::format("{}{}, {:.1f} s", name_of(what.kind), where, static_cast<double>(what.lasts.count()) / 1'000));
    striking_.push_back(begin(what));
    summary_.struck[static_cast<std::size_t>(what.kind)]++;
    figures_.kills++;
}

storm::striking_fault storm::begin(fault const& what)
{
    auto const until = clock::now() + what.lasts;
    auto& link = what.on == target::database_link ? database_network_ : broker_network_;
    switch (what.kind) {
    case fault_kind::service_killed:
    case fault_kind::service_halted:
    case fault_kind::service_restarted: return begin_at_service(what);
    case fault_kind::database_cut:
    case fault_kind::broker_cut: link.cut(true); return {what, until, [&link] { link.cut(false); }, {}};
    case fault_kind::database_stalled:
    case fault_kind::broker_stalled: link.stall(true); return {what, until, [&link] { link.stall(false); }, {}};
    default: return {what, until, [] {}, begin_at_server(what)};
    }
}

storm::striking_fault storm::begin_at_service(fault const& what)
{
    bool const is_kiosk = what.service == orders && what.seed % 5 == 0;
    auto& service =
        is_kiosk ? *services_.back() : *services_[what.service + service_count * (what.seed % processes_each)];
    auto const until = clock::now() + what.lasts;
    if (what.kind != fault_kind::service_halted) {
        if (what.kind == fault_kind::service_restarted) service.terminate(drain_patience);
        service.kill();
        return {what, until, [&service] { service.start(); }, {}};
    }
    ::kill(service.pid(), SIGSTOP);
    return {what, until, [&service] { ::kill(service.pid(), SIGCONT); }, {}};
}

std::future<void> storm::begin_at_server(fault const& what)
{
    return std::async(std::launch::async, [this, what] {
        auto const& databases =
            std::array{chosen_.shop.orders_database, chosen_.shop.payments_database, chosen_.shop.shipping_database};
        // In a cluster it is one node, and the others go on.
        auto const broker = chosen_.cluster.empty() ? "rabbitmq" : std::to_string(what.service % chosen_.nodes() + 1);
        random_source random{what.seed};
        switch (what.kind) {
        case fault_kind::sessions_terminated: return terminate_sessions(databases[what.service], 2);
        case fault_kind::postgres_killed: return take_down(database_operator_, "postgres", false, what.lasts);
        case fault_kind::postgres_restarted: return take_down(database_operator_, "postgres", true, what.lasts);
        case fault_kind::broker_killed: return take_down(broker_operator_, broker, false, what.lasts);
        case fault_kind::broker_restarted: return take_down(broker_operator_, broker, true, what.lasts);
        case fault_kind::broker_alarm:
            broker_operator_.rabbitmqctl("set_vm_memory_high_watermark 0.0000001");
            std::this_thread::sleep_for(what.lasts);  // the fault itself
            broker_operator_.rabbitmqctl("set_vm_memory_high_watermark 0.4");
            return;
        case fault_kind::broker_connections_closed: broker_operator_.rabbitmqctl("close_all_connections storm"); return;
        case fault_kind::queue_deleted: return delete_queue(what.service);
        case fault_kind::table_locked: return lock_a_table(databases[what.service], random, what.lasts);
        case fault_kind::table_rewritten: return rewrite_a_table(databases[what.service], random);
        case fault_kind::commands_issued: return issue_commands(databases[orders], random, what.lasts);
        case fault_kind::door_crowded: return crowd_the_door(port_, random, what.lasts);
        case fault_kind::messages_forged:
            return forge_messages(chosen_, std::string{service_names[what.service]}, random);
        default: return;
        }
    });
}

void storm::take_down(server_operator const& who, std::string const& server, bool in_order, milliseconds lasts) const
{
    if (in_order) who.stop(server);
    else who.kill(server);
    std::this_thread::sleep_for(lasts);  // the fault itself
    who.start(server);
}

/// Only an empty queue: the messages that an operator deletes with a queue are gone, and no outbox has them any more.
/// This shows that the services go on, and that what is published meanwhile is not lost.
void storm::delete_queue(std::size_t service)
{
    load_.hold(true);
    auto const until = clock::now() + quiet_patience;
    skald::rig::shop_databases databases{chosen_.shop};
    auto const is_idle = [&] {
        return databases.count_unsent() == 0 && databases.count_sagas().running == 0 &&
               broker_operator_.rabbitmqctl("-q list_queues --no-table-headers messages").find_first_of("123456789") ==
                   std::string::npos;
    };
    // Between two polls: no server reports that it has nothing left.
    while (!is_idle() && clock::now() < until) std::this_thread::sleep_for(tick_length);
    if (is_idle()) broker_operator_.rabbitmqctl(fmt::format("delete_queue skald.{}", service_names[service]));
    load_.hold(false);
    std::this_thread::sleep_for(2s);  // until it is declared again
    broker_operator_.flush_queue_directory();
}

void storm::end_faults_that_are_over()
{
    std::erase_if(striking_, [](striking_fault& one) {
        if (one.work.valid()) {
            if (one.work.wait_for(0s) != std::future_status::ready) return false;
            one.work.get();
            return true;
        }
        if (clock::now() < one.until) return false;
        one.end();
        return true;
    });
}

// --- What goes on during all acts -----------------------------------------------------------------------------------

void storm::tick()
{
    interruptions_.wait_for(tick_length);
    look_after_services();
    end_faults_that_are_over();
    if (clock::now() - refreshed_ >= between_refreshes) refresh();
    progress_.show(figures_);
}

/// A service must never end by itself, whatever happens around it, unless an order kills it.
void storm::look_after_services()
{
    if (gateway_) gateway_->look_after();
    for (auto const& service : services_)
        if (auto const how = service->ended()) {
            if (how->signal == SIGKILL && service->name() == service_names[skald::rig::payments]) {
                ++killed_by_poison_;
                service->start();
                continue;
            }
            ended_by_themselves_.push_back(fmt::format("{}: {}", service->name(), in_words(*how)));
            progress_.note(fmt::format("{} ended by itself with {}", service->name(), in_words(*how)));
            service->start();
        }
}

void storm::refresh()
try {
    refreshed_ = clock::now();
    if (!databases_) databases_.emplace(chosen_.shop);
    census_ = databases_->count_sagas();
    auto const& counters = load_.counters();
    figures_.accepted = counters.accepted;
    figures_.completed = census_.completed;
    figures_.compensated = census_.compensated;
    figures_.running = census_.running;
    figures_.sent_twice = counters.sent_twice;
    figures_.asked_again = counters.asked_again;
}
catch (pqxx::failure const&) {
    databases_.reset();
}

bool storm::has_come_to_rest()
{
    return databases_ && load_.finished() && census_.running == 0 && census_.ended() >= load_.counters().accepted &&
           is_quiet() && kiosk_.is_at_rest();
}

bool storm::is_quiet()
try {
    return databases_ && databases_->count_unsent() == 0;
}
catch (pqxx::failure const&) {
    databases_.reset();
    return false;
}

}  // namespace order_storm
