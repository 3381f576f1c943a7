// sweep_bench: does the retention's sweep disturb a running load? bench/README.md says how it is measured;
// bench/sweep.sh starts what this needs.
#include "figures.hpp"
#include "phase.hpp"
#include "sweep_bench_sql.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include <fmt/format.h>

namespace {

using namespace sweep_bench;

constexpr int warm_up_seconds = 5;
constexpr std::uint64_t seed = 2026;

std::string from_environment(char const* variable)
{
    char const* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0')
        throw std::runtime_error{std::string{variable} +
                                 " is not set: run bench/sweep.sh, which starts what this needs"};
    return value;
}

// For each phase its orders, none of them sent twice. The first plan has the money and the stock for all of them, and
// enough of it: every saga completes.
std::vector<order_demo::order_plan> make_plans(std::vector<int> const& sizes)
{
    int sum = 0;
    for (int const size : sizes) sum += size;
    auto all = order_demo::make_plan(sum, seed);
    std::vector<order_demo::order_plan> plans(sizes.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i)
        for (int n = 0; n < sizes[i]; ++n) {
            auto& order = plans[i].orders.emplace_back(all.orders[next++]);
            order.sent_again = order_demo::again::never;
            plans.front().wallets[order.customer] += order.cents;
            plans.front().stock[order.sku] += order.quantity;
        }
    return plans;
}

int run(settings const& chosen)
{
    order_demo::signals const interruptions;
    order_demo::shop_databases databases{chosen.shop};
    bench_figures bench{chosen.commit,
                        pqxx::nontransaction{databases.at(0)}.exec(std::string{sql::server_version})[0][0].c_str(),
                        std::thread::hardware_concurrency(),
                        chosen.orders_per_second,
                        chosen.seconds,
                        chosen.old_sagas,
                        {}};
    auto const orders_in = [&](int seconds) {
        return std::max(1, static_cast<int>(chosen.orders_per_second * seconds));
    };
    std::vector<int> sizes{orders_in(warm_up_seconds)};
    sizes.insert(sizes.end(), static_cast<std::size_t>(chosen.rounds) * 2, orders_in(chosen.seconds));
    auto const plans = make_plans(sizes);

    print_head(bench);
    print_phase(run_phase(chosen, interruptions, databases, plans[0], "warm-up", 0));
    for (std::size_t i = 1; i < plans.size(); ++i) {
        bool const sweeps = i % 2 == 0;
        bench.phases.push_back(run_phase(chosen, interruptions, databases, plans[i],
                                         sweeps ? "b: sweep" : "a: no sweep", sweeps ? chosen.old_sagas : 0));
        print_phase(bench.phases.back());
    }
    fmt::print("\nof all old sagas nothing is left in any database\n");
    if (!chosen.json.empty()) write_json(bench, chosen.json);
    return 0;
}

}  // namespace

int main(int argc, char** argv)
try {
    settings chosen;
    CLI::App app{"Runs the order saga at a constant rate, in turn without a sweep and with old sagas to sweep away.\n"
                 "bench/sweep.sh builds what this needs, starts a private PostgreSQL and RabbitMQ, and runs it."};
    app.add_option("--services", chosen.services, "the folder of the three services")->required();
    app.add_option("--logs", chosen.logs, "the folder for their logs")->required();
    app.add_option("--rate", chosen.orders_per_second, "orders per second [50]")->check(CLI::Range(0.1, 10'000.0));
    app.add_option("--seconds", chosen.seconds, "of each phase [60]")->check(CLI::Range(1, 3'600));
    app.add_option("--old", chosen.old_sagas, "old sagas for each sweep [100000]")->check(CLI::Range(1, 5'000'000));
    app.add_option("--rounds", chosen.rounds, "how often both phases run [2]")->check(CLI::Range(1, 20));
    app.add_option("--json", chosen.json, "also write the figures to this file");
    app.add_option("--commit", chosen.commit, "what is measured, for the report");
    CLI11_PARSE(app, argc, argv);
    chosen.shop.orders_database = from_environment("DATABASE_URL_ORDERS");
    chosen.shop.payments_database = from_environment("DATABASE_URL_PAYMENTS");
    chosen.shop.shipping_database = from_environment("DATABASE_URL_SHIPPING");
    chosen.shop.broker = from_environment("AMQP_URL");
    return run(chosen);
}
catch (order_demo::interrupted const& how) {
    std::fprintf(stderr, "sweep_bench: interrupted, all services have been stopped\n");
    return 128 + how.signal;
}
catch (std::exception const& error) {
    std::fprintf(stderr, "sweep_bench: FAILED: %s\n", error.what());
    return 1;
}
