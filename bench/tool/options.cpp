#include "options.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace skald_bench {
namespace {

constexpr char const* head =
    "Measures Skald: three services as processes, a database each, real servers. Prints a table, and as JSON and SVG\n"
    "what was asked for. With --baseline it alternates with a hand-written loop over libpq and rabbitmq-c that leaves "
    "the\n"
    "same rows and sends the same messages, and prints the ratio. bench/README.md says how each figure is measured.\n\n"
    "DATABASE_URL and AMQP_URL name servers that are for nothing else; the databases skald_bench_* are made anew.\n"
    "Settings of the services (SKALD_LANES and so on) are those of this program's environment.";

void list(CLI::Option* option)
{
    option->delimiter(',')->option_text("A,B,...");
}

void add_what(CLI::App& app, options& o)
{
    std::vector<std::string> const names(std::begin(scenario_names), std::end(scenario_names));
    app.add_option("--scenario", o.scenarios, fmt::format("{}; may be given again [all]", fmt::join(names, ", ")))
        ->check(CLI::IsMember(names))
        ->option_text("NAME");
    app.add_flag("--baseline", o.baseline, "in turn with the hand-written baseline, where the scenario has one");
    list(app.add_option("--transport", o.transports,
                        "in turn over these: rabbitmq, postgres, kafka; all [rabbitmq]; kafka at SKALD_KAFKA_BROKERS")
             ->check(CLI::IsMember({"rabbitmq", "postgres", "kafka", "all"})));
    app.add_flag("--only-baseline", o.only_baseline, "the baseline alone");
    app.add_option("--json", o.json, "also write the figures to FILE")->option_text("FILE")->take_last();
    app.add_option("--svg", o.svg, "write plots into the folder DIR")->option_text("DIR")->take_last();
    app.add_option("--logs", o.logs, "the folder for the services' logs [a temporary one]")->option_text("DIR");
    app.add_option("--commit", o.commit, "what is measured, for the report")->option_text("TEXT");
}

void add_how_long(CLI::App& app, options& o)
{
    app.add_option("--seconds", o.seconds, "of each measurement [20]")->check(CLI::Range(1, 36'000))->option_text("N");
    app.add_option("--warm-up", o.warm_up, "seconds before it [3]")->check(CLI::Range(0, 600))->option_text("N");
    app.add_option("--rounds", o.rounds, "how often framework and baseline take turns [2]")
        ->check(CLI::Range(1, 50))
        ->option_text("N");
    app.add_option("--sagas", o.sagas, "so many sagas instead of so many seconds; in the shop [5000]")
        ->check(CLI::Range(1, 10'000'000))
        ->option_text("N");
    app.add_option("--in-flight", o.in_flight, "sagas under way at most [2000]")
        ->check(CLI::Range(1, 100'000))
        ->option_text("N");
    app.add_flag("--start-by-function", o.start_by_function,
                 "start sagas by one skald.start() each, not by many sagas' rows in one statement");
}

void add_shop(CLI::App& app, options& o)
{
    auto const number = [&](char const* name, int& value, char const* about, CLI::Validator const& range) {
        app.add_option(name, value, about)->check(range)->option_text("N");
    };
    number("--customers", o.customers, "shop: so many wallets [50]", CLI::Range(1, 1'000'000));
    number("--skus", o.skus, "shop: so many stocks [40]", CLI::Range(1, 1'000'000));
    list(app.add_option("--shared", o.shared,
                        "shop: one measurement each, with so many of both instead; none: with a wallet and a stock\n"
                        "for each saga, which no other touches [--customers and --skus, then none]")
             ->check([](std::string const& rows) {
                 return rows == "none" ? std::string{} : CLI::Range(1, 1'000'000)(rows);
             }));
    app.add_option("--zipf", o.zipf, "shop: the n-th customer and sku are as frequent as 1 / n^S [0: all alike]")
        ->check(CLI::Range(0.0, 10.0))
        ->option_text("S");
    list(app.add_option("--processes", o.processes, "shop: of each service [1]")->check(CLI::Range(1, 16)));
    number("--declined", o.declined_percent,
           "shop: per cent of the orders that are out of stock: their charge is refunded [0]", CLI::Range(0, 100));
    number("--broke", o.broke_percent, "shop: per cent of the orders that the wallet does not cover [0]",
           CLI::Range(0, 100));
    app.add_option("--services", o.shop_programs, "shop: where its three programs are [beside this one, as built]")
        ->option_text("DIR");
    number("--limit", o.limit_seconds, "shop: seconds after which a measurement ends with what has ended [120]",
           CLI::Range(1, 36'000));
}

void add_scenarios(CLI::App& app, options& o)
{
    list(
        app.add_option("--rates", o.rates, "latency: sagas a second [50,300,1000]")->check(CLI::Range(0.1, 100'000.0)));
    list(app.add_option("--rows", o.rows, "tables: old rows in each database [0,1000000,10000000]")
             ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000})));
    list(app.add_option("--keys", o.keys, "tables: random (UUIDv4), ordered (UUIDv7) [random,ordered]")
             ->check(CLI::IsMember({"random", "ordered"})));
    app.add_option("--hold", o.hold_seconds, "snapshot: seconds that it is held [600]")
        ->check(CLI::Range(1, 36'000))
        ->option_text("N");
    app.add_option("--backlog", o.backlog, "backlog: messages [1000000]")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{100'000'000}))
        ->option_text("N");
    app.add_option("--messages", o.messages, "messages: in the queue of a step, and in that of a handler [50000]")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{10'000'000}))
        ->option_text("N");
    app.add_option("--connections", o.connections, "entry: at the same time, and lanes of the service [8]")
        ->check(CLI::Range(1, 256))
        ->option_text("N");
    list(
        app.add_option("--under-way", o.under_way, "transports: sagas under way [1,50]; for more there is `throughput`")
            ->check(CLI::Range(1, 100'000)));
    list(app.add_option("--callers", o.callers, "guards: that share a key [1,10,100]")->check(CLI::Range(1, 1'000)));
    list(app.add_option("--duplicates", o.duplicates, "guards: per cent of the requests [1,50,90]")
             ->check(CLI::Range(0, 100)));
    app.add_flag("--tcp", o.tcp, "TCP to PostgreSQL in every scenario, not its unix socket");
    app.add_flag(
        "--each", o.each,
        "one business statement and round trip for each delivery, in framework and baseline; else one for a batch");
}

void add_waits(CLI::App& app, options& o)
{
    auto const number = [&](char const* name, int& value, char const* about, int most) {
        app.add_option(name, value, about)->check(CLI::Range(1, most))->option_text("N");
    };
    number("--waiting", o.waiting, "waits: sagas that wait for a signal [10000]", 1'000'000);
    number("--timers", o.timers, "waits: sagas that wait for a time [100000]", 1'000'000);
    number("--over", o.over_seconds, "waits: seconds from the first timer to the last [60]", 36'000);
    number("--lead", o.lead_seconds, "waits: seconds from the start to the first timer [240]", 36'000);
    number("--job", o.job_seconds, "calls: seconds that the job takes [600]", 36'000);
    number("--stopped", o.stopped_seconds, "calls: seconds for which an owner is stopped [600]", 36'000);
    number("--lease", o.lease_seconds, "calls: seconds, of an owner [15]", 3'600);
}

void add_baseline(CLI::App& app, options& o)
{
    app.add_option("--baseline-lanes", o.baseline_lanes, "lanes of each service of the baseline [4]")
        ->check(CLI::Range(1, 64))
        ->option_text("N");
    app.add_option("--baseline-batch", o.baseline_batch, "deliveries in one transaction of the baseline [32]")
        ->check(CLI::Range(1, 1'000))
        ->option_text("N");
}

std::string from_environment(char const* variable)
{
    char const* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return value;
    fmt::print(
        stderr,
        "skald-bench: error: {} is not set. Run bench/bench.sh, which starts private servers and stops them; or\n"
        "    eval \"$(scripts/stack.sh up DIR)\"\n",
        variable);
    throw end_of_program{2};
}

}  // namespace

bool options::runs(std::string_view scenario) const
{
    return scenarios.empty() || std::ranges::find(scenarios, scenario) != scenarios.end();
}

bool options::is_over(std::string_view transport) const
{
    return std::ranges::find(transports, transport) != transports.end();
}

options read_options(int argc, char** argv)
{
    options o;
    CLI::App app{head, "skald-bench"};
    add_what(app, o);
    add_how_long(app, o);
    add_shop(app, o);
    add_scenarios(app, o);
    add_waits(app, o);
    add_baseline(app, o);
    try {
        app.parse(argc, argv);
    }
    catch (CLI::ParseError const& error) {
        throw end_of_program{app.exit(error) == 0 ? 0 : 2};
    }
    if (o.declined_percent + o.broke_percent > 100) {
        fmt::print(stderr, "skald-bench: error: --declined and --broke are more than all orders together\n");
        throw end_of_program{2};
    }
    if (o.baseline && o.only_baseline) {
        fmt::print(stderr, "skald-bench: error: --baseline takes turns with the framework, --only-baseline leaves it "
                           "out: choose one\n");
        throw end_of_program{2};
    }
    o.programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    if (o.shop_programs.empty()) o.shop_programs = o.programs.parent_path() / "examples" / "order_saga";
    o.database_url = from_environment("DATABASE_URL");
    o.broker_url = from_environment("AMQP_URL");
    if (o.is_over("all")) o.transports = {"rabbitmq", "postgres", "kafka"};
    if (o.is_over("kafka")) o.kafka_brokers = from_environment("SKALD_KAFKA_BROKERS");
    return o;
}

}  // namespace skald_bench
