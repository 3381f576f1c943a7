#include "phase.hpp"

#include "old_sagas.hpp"
#include "sweep_bench_sql.hpp"

#include "broker.hpp"
#include "findings.hpp"
#include "http_client.hpp"
#include "order_load.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <unordered_map>

#include <fmt/format.h>

namespace sweep_bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using services = std::vector<std::unique_ptr<order_demo::service_process>>;
using order_demo::orders;

constexpr std::array<char const*, order_demo::service_count> program_names{"order_service", "payment_service",
                                                                           "shipping_service"};
constexpr auto tick_length = 100ms;
constexpr auto start_patience = 60s;
constexpr auto drain_patience = 25s;
constexpr std::uint64_t any_seed = 1;  // of the clients' pauses after a refusal

services start_services(settings const& chosen, std::uint16_t port, bool sweep)
{
    std::array const databases{chosen.shop.orders_database, chosen.shop.payments_database,
                               chosen.shop.shipping_database};
    services made;
    for (std::size_t i = 0; i < order_demo::service_count; ++i) {
        order_demo::service_settings one;
        one.name = order_demo::service_names[i];
        one.program = chosen.services / program_names[i];
        if (i == orders) one.arguments = {"--listen", fmt::format("127.0.0.1:{}", port)};
        one.environment = {"DATABASE_URL=" + databases[i], "AMQP_URL=" + chosen.shop.broker,
                           std::string{"SKALD_SWEEP="} + (sweep ? "on" : "off"), "SKALD_SWEEP_SECONDS=1"};
        one.log = chosen.logs / fmt::format("{}.log", program_names[i]);
        made.push_back(std::make_unique<order_demo::service_process>(std::move(one)));
        made.back()->start();
    }
    return made;
}

bool is_ready(std::uint16_t port)
try {
    return order_demo::http_client{port, 2s}.ask({"GET", "/readyz", {}, ""}).status == 200;
}
catch (order_demo::http_error const&) {
    return false;
}

// With its tables, and taking deliveries: nothing of a service's start may fall into the measurement.
bool is_at_work(order_demo::shop_databases& databases, order_demo::broker& observer, std::size_t service)
{
    if (!databases.has_tables(service)) return false;
    auto const queue = observer.look_at(fmt::format("skald.{}", order_demo::service_names[service]));
    return queue && queue->consumers > 0;
}

void check_that_all_run(services const& running)
{
    for (auto const& one : running)
        if (auto const how = one->ended())
            throw std::runtime_error{
                fmt::format("{} ended by itself with {}:\n{}", one->name(), *how, one->log_tail())};
}

template <typename Condition>
void wait_for(order_demo::signals const& interruptions, services const& running, std::chrono::seconds patience,
              char const* what, Condition const& reached)
{
    for (auto const until = clock::now() + patience; !reached();) {
        if (clock::now() > until)
            throw std::runtime_error{fmt::format("{} took longer than {} s", what, patience.count())};
        check_that_all_run(running);
        interruptions.wait_for(tick_length);
    }
}

void await_start(settings const& chosen, order_demo::signals const& interruptions,
                 order_demo::shop_databases& databases, services const& running, std::uint16_t port)
{
    order_demo::broker observer{chosen.shop.broker};
    wait_for(interruptions, running, start_patience, "starting the services", [&] {
        return is_at_work(databases, observer, 0) && is_at_work(databases, observer, 1) &&
               is_at_work(databases, observer, 2) && is_ready(port);
    });
}

std::string server_now(order_demo::shop_databases& databases)
{
    return pqxx::nontransaction{databases.at(orders)}.exec(std::string{sql::server_now})[0][0].as<std::string>();
}

// By key: how long each saga since then took. Throws if one did not complete.
std::unordered_map<std::string, double> times_to_end(order_demo::shop_databases& databases, std::string const& since)
{
    std::unordered_map<std::string, double> times;
    pqxx::nontransaction tx{databases.at(orders)};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // exec_params: the one form that libpqxx 6 and 7 share
    for (auto const& row : tx.exec_params(std::string{sql::time_to_end}, since)) {
#pragma GCC diagnostic pop
        if (row[1].c_str() != std::string{"completed"})
            throw std::runtime_error{fmt::format("saga {} is {}", row[0].c_str(), row[1].c_str())};
        times.emplace(row[0].c_str(), row[2].as<double>());
    }
    return times;
}

// Of the first `count` orders of the plan.
void measure(order_demo::order_plan const& plan, std::vector<order_demo::order_record> const& records,
             std::unordered_map<std::string, double> const& times, std::size_t count, percentiles& answers,
             percentiles& ends)
{
    std::vector<double> answered, ended;
    for (std::size_t i = 0; i < count; ++i) {
        if (!records[i].accepted)
            throw std::runtime_error{
                fmt::format("order {} was not accepted: {}", plan.orders[i].key, records[i].last_refusal)};
        answered.push_back(std::chrono::duration<double, std::milli>(records[i].answered_after).count());
        ended.push_back(times.at(plan.orders[i].key));
    }
    answers = skald_bench::percentiles_of(std::move(answered));
    ends = skald_bench::percentiles_of(std::move(ended));
}

}  // namespace

phase_figures run_phase(settings const& chosen, order_demo::signals const& interruptions,
                        order_demo::shop_databases& databases, order_demo::order_plan const& plan, std::string name,
                        int old)
{
    old_sagas swept{databases, "old-" + plan.orders.front().key + '-'};
    if (old > 0) swept.make(old);
    settle_down(databases);
    auto const port = order_demo::find_free_port();
    auto const running = start_services(chosen, port, old > 0);
    await_start(chosen, interruptions, databases, running, port);
    if (!plan.wallets.empty()) databases.fill(plan);

    auto const since = server_now(databases);
    auto const began = clock::now();
    order_demo::order_load load{plan, port, chosen.clients, any_seed, chosen.orders_per_second};
    load.start_orders();
    std::chrono::duration<double> gone_after{};
    auto const at_rest = [&] {
        // Looked at each time, whatever else is still missing: when the last one went is a figure too.
        if (old > 0 && gone_after.count() == 0 && !swept.are_some_left()) gone_after = clock::now() - began;
        bool const gone = old == 0 || gone_after.count() > 0;
        return gone && load.finished() && databases.count_unsent() == 0 && databases.count_sagas().running == 0;
    };
    wait_for(interruptions, running, std::chrono::seconds{chosen.seconds + chosen.patience_seconds}, name.c_str(),
             at_rest);
    if (order_demo::end_in_order(running, interruptions, drain_patience).count > 0)
        throw std::runtime_error{"a service did not end in order: its log says why"};
    swept.check_that_none_is_left();

    auto const times = times_to_end(databases, since);
    phase_figures made{std::move(name), static_cast<int>(plan.orders.size()), {}, {}, {}};
    measure(plan, load.records(), times, plan.orders.size(), made.answers, made.ends);
    if (old == 0) return made;
    made.swept = {old, gone_after.count(), {}, {}};
    auto const meanwhile =
        std::min(plan.orders.size(), static_cast<std::size_t>(gone_after.count() * chosen.orders_per_second) + 1);
    measure(plan, load.records(), times, meanwhile, made.swept->answers, made.swept->ends);
    return made;
}

}  // namespace sweep_bench
