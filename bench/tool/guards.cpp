#include "guards.hpp"

#include "bench_tool_sql.hpp"
#include "broker_extras.hpp"
#include "processes.hpp"

#include "rig/http.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr std::array ways{"postgres", "cache_aside", "lock", "accelerator", "redis_only"};
constexpr auto longest_answer = 60s;
constexpr auto sent_again_after = 10ms;
constexpr int own_connections = 8;  // where each has keys of its own

/// A redis-server of its own, without persistence, which it ends.
class redis_server
{
public:
    explicit redis_server(std::filesystem::path const& logs)
        : process_{{.program = "/usr/bin/env",
                    .arguments = {"redis-server", "--port", std::to_string(port_), "--bind", "127.0.0.1", "--save", "",
                                  "--dir", logs.string()},
                    .inherits_environment = true,
                    .log = logs / "redis.log",
                    .name = "redis"}}
    {
        process_.start();
    }

    std::string url() const { return fmt::format("redis://127.0.0.1:{}", port_); }
    double cpu() const { return cpu_seconds(process_.pid()); }

private:
    std::uint16_t const port_{skald::rig::find_free_port()};
    skald::rig::process process_;
};

/// The keys that a group of callers share: most of them ask for the latest one.
class shared_keys
{
public:
    explicit shared_keys(std::string prefix) : prefix_{std::move(prefix)} {}

    std::string next(bool repeats)
    {
        std::lock_guard const lock{mutex_};
        if (!repeats || count_ == 0) ++count_;
        return prefix_ + std::to_string(count_);
    }

private:
    std::string const prefix_;
    std::mutex mutex_;
    std::int64_t count_{};
};

struct tally
{
    std::vector<double> first_ms, replay_ms;
    std::int64_t told_to_wait{}, refused{}, wrong{};

    void add(tally const& other)
    {
        first_ms.insert(first_ms.end(), other.first_ms.begin(), other.first_ms.end());
        replay_ms.insert(replay_ms.end(), other.replay_ms.begin(), other.replay_ms.end());
        told_to_wait += other.told_to_wait;
        refused += other.refused;
        wrong += other.wrong;
    }

    std::int64_t answers() const { return std::ssize(first_ms) + std::ssize(replay_ms); }

    /// Until it is answered: who hears 409 or 503 has nothing yet, and sends the same request again.
    void ask(skald::rig::http_client& by, std::string const& path, std::string const& key)
    {
        for (auto const from = clock::now();; std::this_thread::sleep_for(sent_again_after)) {
            auto const got = by.Post(path, {{"Idempotency-Key", '"' + key + '"'}}, "{}", "application/json");
            std::chrono::duration<double, std::milli> const took = clock::now() - from;
            if (!got) throw std::runtime_error{"a request was not answered: " + httplib::to_string(got.error())};
            if (got->status == 409) ++told_to_wait;
            else if (got->status == 503) ++refused;
            else {
                if (got->status != 201 || got->body != fmt::format(R"({{"key":"{}"}})", key)) ++wrong;
                else (got->has_header("Idempotency-Replayed") ? replay_ms : first_ms).push_back(took.count());
                return;
            }
            if (took > longest_answer)
                throw std::runtime_error{fmt::format("a request hears nothing but {}", got->status)};
        }
    }
};

struct guard_load
{
    std::string path;
    std::string prefix;
    int callers{};
    int duplicates{};
    std::array<std::uint16_t, 2> ports{};
};

/// For a time; or a number of requests, if there is one.
tally run_load(guard_load const& load, std::chrono::seconds length, int number)
{
    auto const until = clock::now() + length;
    std::atomic<int> left{number};
    bool const share = load.callers > 1;
    int const connections = share ? load.callers : own_connections;
    shared_keys together{load.prefix};
    tally all;
    std::exception_ptr failure;
    std::mutex mutex;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < connections; ++i)
            threads.emplace_back([&, i] {
                tally mine;
                try {
                    shared_keys own{fmt::format("{}{}-", load.prefix, i)};
                    auto const here = static_cast<std::size_t>(i % 2);
                    skald::rig::http_client one{load.ports.at(here), longest_answer};
                    skald::rig::http_client other{load.ports.at(1 - here), longest_answer};
                    std::mt19937 random{static_cast<unsigned>(i)};
                    std::uniform_int_distribution<int> percent{0, 99};
                    while (number > 0 ? --left >= 0 : clock::now() < until) {
                        bool const repeats = percent(random) < load.duplicates;
                        mine.ask(!share && repeats ? other : one, load.path, (share ? together : own).next(repeats));
                    }
                }
                catch (...) {
                    std::lock_guard const lock{mutex};
                    failure = std::current_exception();
                }
                std::lock_guard const lock{mutex};
                all.add(mine);
            });
    }
    if (failure) std::rethrow_exception(failure);
    return all;
}

guard_figures measure_guard(bench const& b, bench_databases& databases, fleet const& services,
                            redis_server const& redis, std::string const& way, guard_load load)
{
    machine const here{databases, port_of(b.chosen.broker_url)};
    load.prefix += "warm-";
    run_load(load, std::chrono::seconds{b.chosen.warm_up}, b.chosen.sagas);
    load.prefix.resize(load.prefix.size() - 5);
    auto const counts_before = count_on_server(databases);
    auto const cpu_before = here.cpu(services);
    auto const redis_before = redis.cpu();
    auto const from = clock::now();
    auto made = run_load(load, std::chrono::seconds{b.chosen.seconds}, b.chosen.sagas);
    std::chrono::duration<double> const took = clock::now() - from;
    auto const cpu = here.cpu(services) - cpu_before;
    auto const redis_cpu = redis.cpu() - redis_before;
    auto const counts = count_on_server(databases) - counts_before;
    auto const answers = static_cast<double>(std::max<std::int64_t>(made.answers(), 1));
    guard_figures f;
    f.way = way;
    f.callers = load.callers;
    f.duplicates = load.duplicates;
    f.answers = made.answers();
    f.per_second = static_cast<double>(f.answers) / took.count();
    f.told_to_wait = made.told_to_wait;
    f.first_ms = percentiles_of(std::move(made.first_ms));
    f.replay_ms = percentiles_of(std::move(made.replay_ms));
    f.transactions = static_cast<double>(counts.commits + counts.rollbacks) / answers;
    f.services_us = cpu.services / answers * 1e6;
    f.postgres_us = cpu.postgres / answers * 1e6;
    f.redis_us = redis_cpu / answers * 1e6;
    f.refused = made.refused;
    f.wrong = made.wrong;
    f.twice = ask(databases.at(orders), sql::effects_twice, load.prefix)[0][0].as<std::int64_t>();
    return f;
}

}  // namespace

void run_guards(bench const& b, bench_databases& databases, std::function<void(guard_figures const&)> const& each)
{
    redis_server const redis{b.chosen.logs};
    auto const run = std::random_device{}();
    for (std::string const way : ways) {
        databases.settle_down();
        fleet_shape shape{.tcp = b.chosen.tcp, .processes = 2, .services = {orders}};
        shape.variables = {{"SKALD_GUARD", way}, {"SKALD_REDIS_URL", redis.url()}, {"SKALD_HTTP_KEPT_BYTES_MAX", "0"}};
        fleet services{b.chosen, b.interruptions, databases, shape};
        auto const ports = services.http_ports();
        // Few duplicates first: what many leave in Redis keeps it awake for 10 s.
        for (int const duplicates : b.chosen.duplicates)
            for (int const callers : b.chosen.callers) {
                guard_load const load{way == "redis_only" ? "/repeatable" : "/guarded",
                                      fmt::format("{}-{}-{}-{}-", run, way, callers, duplicates),
                                      callers,
                                      duplicates,
                                      {ports.at(0), ports.at(1)}};
                each(measure_guard(b, databases, services, redis, way, load));
            }
        services.stop();
    }
}

}  // namespace skald_bench
