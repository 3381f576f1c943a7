// skald-bench-baseline: one of the three services, hand-written over libpq and rabbitmq-c, without a line of Skald's
// code. What its figures are for is in bench/README.md, "The baseline".
#include "lane.hpp"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

namespace {

using namespace bench_baseline;

std::string from_environment(char const* variable)
{
    char const* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0') throw std::runtime_error{std::string{variable} + " is not set"};
    return value;
}

// What fails, fails at once and with a message: a baseline that limps on would yield a wrong figure.
template <class Work>
std::jthread start(Work work)
{
    return std::jthread{[work = std::move(work)](std::stop_token const& stop) mutable {
        try {
            work(stop);
        }
        catch (std::exception const& error) {
            std::fprintf(stderr, "skald-bench-baseline: %s\n", error.what());
            std::_Exit(1);
        }
    }};
}

int serve(baseline_options const& options, role const& here, sigset_t const& signals)
{
    relay out{options.database_url, options.broker_url, here};
    std::vector<std::unique_ptr<lane>> lanes;
    for (int i = 0; i < options.lanes; ++i) lanes.push_back(std::make_unique<lane>(options, here, out));

    auto relaying = start([&out](std::stop_token const& stop) { out.run(stop); });
    std::vector<std::jthread> threads;
    for (auto& one : lanes) threads.push_back(start([&one](std::stop_token const& stop) { one->run(stop); }));
    int met = 0;
    sigwait(&signals, &met);
    // The lanes first, then the relay, so that what they committed last is still sent.
    for (auto& one : threads) one.request_stop();
    threads.clear();
    relaying.request_stop();
    relaying.join();
    return 0;
}

}  // namespace

int main(int argc, char** argv)
try {
    CLI::App app{"The hand-written baseline of `skald-bench`: one service. DATABASE_URL and AMQP_URL say where."};
    std::string service;
    baseline_options options;
    bool shop{};
    app.add_option("service", service, "orders, payments or shipping")->required();
    app.add_option("--lanes", options.lanes, "threads with a database connection [4]")->check(CLI::Range(1, 64));
    app.add_option("--batch", options.batch_max, "deliveries in one transaction [32]")->check(CLI::Range(1, 1000));
    app.add_option("--prefetch", options.prefetch, "of each lane [64]")->check(CLI::Range(1, 10'000));
    app.add_flag("--each", options.each, "one business statement for each delivery, not one for a batch");
    app.add_flag("--shop", shop, "the order example's saga and tables, not the bench's own");
    CLI11_PARSE(app, argc, argv);

    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    options.database_url = from_environment("DATABASE_URL");
    options.broker_url = from_environment("AMQP_URL");
    return serve(options, role_of(service, shop), signals);
}
catch (std::exception const& error) {
    std::fprintf(stderr, "skald-bench-baseline: %s\n", error.what());
    return 1;
}
