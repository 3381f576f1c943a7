#include "director.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "audit/survey.hpp"
#include "rig/findings.hpp"
#include "rig/http.hpp"
#include "rig/text.hpp"

namespace order_demo {
namespace {

using namespace std::chrono_literals;

constexpr std::array<char const*, service_count> program_names{"order_service", "payment_service", "shipping_service"};

constexpr auto tick_length = 10ms;
constexpr auto between_refreshes = 200ms;
constexpr auto start_patience = 60s;
constexpr auto drain_patience = 20s;
constexpr auto quiet_for = 1s;
constexpr int unfinished_shown = 10;

std::unique_ptr<gateway> make_gateway(options const& chosen)
{
    return chosen.gateway.empty() ? nullptr : std::make_unique<gateway>(chosen.gateway, chosen.logs, chosen.seed);
}

std::vector<std::unique_ptr<process>> make_services(options const& chosen, std::uint16_t port, gateway const* charging,
                                                    std::map<std::string, std::string> const& variables)
{
    auto const& servers = chosen.servers;
    std::array const databases{servers.orders_database, servers.payments_database, servers.shipping_database};
    std::vector<std::unique_ptr<process>> services;
    for (std::size_t i = 0; i < service_count; ++i) {
        process_settings settings;
        settings.name = service_names[i];
        settings.program = (chosen.services / program_names[i]).string();
        if (i == payments && !chosen.payments.empty()) settings.program = chosen.payments.string();
        if (i == shipping && !chosen.shipping.empty()) settings.program = chosen.shipping.string();
        if (i == orders) settings.arguments = {"--listen", fmt::format("127.0.0.1:{}", port)};
        if (i == payments && charging != nullptr) settings.arguments = {"--gateway", charging->address()};
        settings.inherits_environment = true;
        settings.variables = {{"DATABASE_URL", databases[i]}};
        settings.variables.insert(variables.begin(), variables.end());
        settings.log = chosen.logs / fmt::format("{}.log", program_names[i]);
        services.push_back(std::make_unique<process>(std::move(settings)));
    }
    return services;
}

std::unique_ptr<queues> make_queues(options const& chosen)
{
#ifdef ORDER_SAGA_OVER_KAFKA
    if (chosen.transport == "kafka") return kafka_queues(chosen.servers.broker);
#endif
    return chosen.transport == "postgres" ? inbox_queues(chosen) : broker_queues(chosen);
}

}  // namespace

director::director(options const& chosen, signals const& interruptions)
    : chosen_{chosen}, interruptions_{interruptions}, plan_{make_plan(chosen.orders, chosen.seed)},
      databases_{chosen.servers}, queues_{make_queues(chosen)}, port_{find_free_port()}, load_{plan_, port_,
                                                                                               chosen.clients,
                                                                                               chosen.seed},
      gateway_{make_gateway(chosen)}, services_{make_services(chosen, port_, gateway_.get(), queues_->variables())}
{
    figures_.orders = chosen.orders;
}

run_summary director::run()
{
    start_services();
    queues_->copy_everything(chosen_.seed);
    databases_.fill(plan_);
    place_orders();
    if (await_sagas()) {
        repeat_late();
        await_quiet();
    }
    end_services();
    return conclude();
}

// --- The acts -------------------------------------------------------------------------------------------------------

void director::start_services()
{
    figures_.phase = "starting the services";
    if (gateway_) gateway_->start();
    for (auto const& service : services_) service->start();
    auto const until = clock::now() + start_patience;
    for (std::size_t i = 0; i < service_count; ++i) {
        while (!is_ready(i)) {
            if (clock::now() > until)
                throw demo_failure(fmt::format("the {} service was not ready after {} s. The end of its log:\n{}",
                                               service_names[i], start_patience.count(), services_[i]->log_tail()));
            tick();
        }
    }
}

void director::place_orders()
{
    figures_.phase = "placing orders";
    ordering_ = true;
    load_.start_orders();
    auto const done = [this] { return load_.finished() && kills_struck_ == plan_.kills.size(); };
    if (!wait_until(done)) throw demo_failure("no client got any answer for too long; see the order service's log");
}

/// False if it timed out.
bool director::await_sagas()
{
    figures_.phase = "sagas run to their end";
    if (gateway_) gateway_->behave();
    // One more kill, if sagas are still running when all services are up again.
    if (!wait_until([this] { return outages_.empty(); })) return false;
    refresh();
    if (census_.running > 0) strike(late_kill(chosen_.seed));
    bool const ended = wait_until([this] {
        return outages_.empty() && census_.running == 0 && census_.ended() + census_.stuck >= load_.counters().accepted;
    });
    if (ended) return true;
    progress_.note(fmt::format("nothing has happened for {} s; these sagas have not ended:", chosen_.patience.count()));
    for (auto const& line : databases_.describe_unfinished(unfinished_shown)) progress_.note("  " + line);
    return false;
}

void director::repeat_late()
{
    figures_.phase = "late duplicates";
    queues_->hurry();
    load_.start_epilogue();
    auto const done = [this] { return load_.finished() && queues_->copied().left == 0; };
    if (!wait_until(done)) throw demo_failure("the late duplicates came to a halt; see the order service's log");
}

void director::await_quiet()
{
    figures_.phase = "waiting until all is quiet";
    if (wait_until([this] { return is_quiet(); })) return;
    findings_.push_back(found("not quiet in the end", {fmt::format("{} messages wait in queues, {} in outboxes",
                                                                   messages_ready(), databases_.count_unsent())}));
}

void director::end_services()
{
    figures_.phase = "ending the services";
    progress_.show(figures_);
    findings_.push_back(end_in_order(services_, interruptions_, drain_patience));
}

// The services have ended, so one look is enough.
finding director::broken_invariants() const
{
    skald::audit::survey_options options;
    options.databases = {{"orders", chosen_.servers.orders_database},
                         {"payments", chosen_.servers.payments_database},
                         {"shipping", chosen_.servers.shipping_database}};
    options.grace = 0s;
    skald::audit::findings broken{examples_max};
    skald::audit::survey(options, broken);
    finding made{"invariants that do not hold", static_cast<std::int64_t>(broken.total()), {}};
    for (auto const& one : broken.kept())
        made.examples.push_back(fmt::format("{}: {} of {} at {}", one.kind, one.what, one.key, one.service));
    return made;
}

run_summary director::conclude()
{
    refresh();
    progress_.finish();
    auto const told = found_by_clients(plan_, load_.records());
    findings_.insert(findings_.end(), told.begin(), told.end());
    findings_.push_back({"messages left in queues", messages_ready(), {}});
    findings_.push_back(broken_invariants());
    auto const& counters = load_.counters();
    auto const copied = queues_->copied();
    run_summary run;
    run.seed = chosen_.seed;
    run.orders = chosen_.orders;
    run.length = std::chrono::duration_cast<std::chrono::milliseconds>(progress_.elapsed());
    run.orders_took = databases_.orders_took();
    run.disturbed = {counters.sent_twice,           counters.answered_in_flight,         counters.asked_again,
                     static_cast<int>(copied.seen), static_cast<int>(copied.duplicates), figures_.kills};
    run.outcome =
        judge(databases_, plan_, load_.records(), {}, gateway_ ? std::optional{gateway_->charges()} : std::nullopt);
    run.outcome.findings.insert(run.outcome.findings.end(), findings_.begin(), findings_.end());
    return run;
}

// --- Throughout the demonstration -----------------------------------------------------------------------------------

void director::tick()
{
    interruptions_.wait_for(tick_length);
    queues_->check();
    look_after_services();
    if (ordering_) {
        strike_what_is_due();
        if (gateway_ && !load_.finished()) gateway_->misbehave();
        if (clock::now() - refreshed_ >= between_refreshes) refresh();
    }
    progress_.show(figures_);
}

/// False if nothing at all has happened for the length of options::patience.
template <typename Condition>
bool director::wait_until(Condition const& reached)
{
    auto last_sign = signs_of_life();
    auto last_change = clock::now();
    while (!reached()) {
        tick();
        if (auto sign = signs_of_life(); sign != last_sign) {
            last_sign = std::move(sign);
            last_change = clock::now();
        }
        if (clock::now() - last_change > chosen_.patience) return false;
    }
    return true;
}

std::string director::signs_of_life()
{
    auto const copied = queues_->copied();
    return fmt::format("{} {} {} {} {}", load_.counters().accepted.load(), load_.counters().sent_twice.load(),
                       census_.ended(), copied.seen, copied.duplicates);
}

void director::look_after_services()
{
    if (gateway_) gateway_->look_after();
    for (auto const& service : services_)
        if (auto const how = service->ended())
            throw demo_failure(fmt::format("the {} service ended by itself with {}. The end of its log:\n{}",
                                           service->name(), in_words(*how), service->log_tail()));
    std::erase_if(outages_, [this](outage const& one) {
        if (clock::now() < one.until) return false;
        services_[one.service]->start();
        return true;
    });
}

void director::strike(planned_kill const& kill)
{
    auto& service = *services_[kill.service];
    if (!service.is_running()) return;  // it is already down
    progress_.note(fmt::format("SIGKILL to the {} service (pid {}), back in {:.1f} s", service.name(), service.pid(),
                               static_cast<double>(kill.down_for.count()) / 1'000));
    service.kill();
    outages_.push_back({kill.service, clock::now() + kill.down_for});
    figures_.kills++;
}

void director::strike_what_is_due()
{
    while (kills_struck_ < plan_.kills.size()) {
        auto const& next = plan_.kills[kills_struck_];
        if (load_.counters().accepted < next.accepted && !load_.finished()) return;
        strike(next);
        ++kills_struck_;
    }
}

void director::refresh()
{
    refreshed_ = clock::now();
    census_ = databases_.count_sagas();
    auto const& counters = load_.counters();
    figures_.accepted = counters.accepted;
    figures_.completed = census_.completed;
    figures_.compensated = census_.compensated;
    figures_.running = census_.running;
    figures_.sent_twice = counters.sent_twice;
    figures_.asked_again = counters.asked_again;
    figures_.replayed = static_cast<int>(queues_->copied().duplicates);
}

// --- Checks ---------------------------------------------------------------------------------------------------------

bool director::is_ready(std::size_t service)
{
    if (!databases_.has_tables(service)) return false;
    auto const queue = queues_->look_at(service);
    if (!queue || queue->consumers == 0) return false;
    return service != orders || skald::rig::is_ready(port_);
}

/// Nothing waits anywhere, and nothing has changed for a while. The while is needed because a delivery that is being
/// processed is no longer in any queue.
bool director::is_quiet()
{
    if (clock::now() - looked_at_ < between_refreshes) return false;
    looked_at_ = clock::now();
    auto const activity = databases_.activity();
    bool const still = activity == std::exchange(activity_, activity) && messages_ready() == 0 &&
                       databases_.count_unsent() == 0 && queues_->copied().left == 0;
    if (!still) quiet_since_.reset();
    else if (!quiet_since_) quiet_since_ = clock::now();
    return quiet_since_ && clock::now() - *quiet_since_ >= quiet_for;
}

std::int64_t director::messages_ready()
{
    std::int64_t ready = 0;
    for (std::size_t i = 0; i < service_count; ++i)
        if (auto const queue = queues_->look_at(i)) ready += queue->ready;
    return ready;
}

}  // namespace order_demo
