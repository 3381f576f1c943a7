#include "transports.hpp"

#include "bench_tool_sql.hpp"
#include "keys.hpp"
#include "open_loop.hpp"

#include "rig/http.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include <fmt/ranges.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;
using wall = std::chrono::system_clock;  // the server's clock too, which is on this machine

constexpr int clients_at_most = 250;  // a service lets 256 requests wait, and refuses more
constexpr auto placed_within = 60s;

/// Clients that place an order each time they are let.
class permitted_load
{
public:
    permitted_load(std::uint16_t port, int clients) : port_{port}
    {
        for (int i = 0; i < clients; ++i)
            threads_.emplace_back([this](std::stop_token const& stop) { run_client(stop); });
    }

    /// The keys of those under way, as PostgreSQL writes an array. Throws a client's error, if one had any.
    std::string under_way()
    {
        std::lock_guard const lock{mutex_};
        if (failure_) std::rethrow_exception(failure_);
        return fmt::format("{{{}}}", fmt::join(under_way_, ","));
    }

    /// So many are under way from now on, let in and not yet placed included.
    void top_up(pqxx::result const& ended, int under_way)
    {
        std::lock_guard const lock{mutex_};
        for (auto const& row : ended) under_way_.erase(row[0].c_str());
        permits_ = std::max<std::int64_t>(0, under_way - std::ssize(under_way_));
        changed_.notify_all();
    }

    void end()
    {
        for (auto& one : threads_) one.request_stop();
        changed_.notify_all();
        threads_.clear();
    }

    /// When each was sent, by key; after end().
    std::unordered_map<std::string, wall::time_point> const& sent() const { return sent_; }

private:
    void run_client(std::stop_token const& stop)
    {
        try {
            skald::rig::http_client client{port_, placed_within};
            key_maker keys{true, std::random_device{}()};
            for (std::unique_lock lock{mutex_}; changed_.wait(lock, stop, [this] { return permits_ > 0; });) {
                --permits_;
                auto const key = keys.make();
                under_way_.insert(key);
                sent_.emplace(key, wall::now());
                lock.unlock();
                place_order(client, key);
                lock.lock();
            }
        }
        catch (...) {
            std::lock_guard const lock{mutex_};
            failure_ = std::current_exception();
        }
    }

    std::uint16_t port_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::int64_t permits_{};
    std::unordered_set<std::string> under_way_;
    std::unordered_map<std::string, wall::time_point> sent_;
    std::exception_ptr failure_;
    std::vector<std::jthread> threads_;
};

wall::time_point time_of(double epoch_seconds)
{
    return wall::time_point{std::chrono::duration_cast<wall::duration>(std::chrono::duration<double>{epoch_seconds})};
}

}  // namespace

transport_figures run_over_transport(bench const& b, bench_databases& databases, implementation who, int under_way)
{
    databases.settle_down();
    databases.disconnect_all();
    auto const counted_before = count_on_server(databases);
    transport_figures made{who, under_way, {}, {}, {}, {}, {}};
    machine const meters{databases, broker_port(b.chosen, who)};
    fleet services{b.chosen, b.interruptions, databases, {who, b.chosen.tcp}};
    auto const since = ask(databases.at(orders), sql::server_now)[0][0].as<std::string>();
    permitted_load load{services.http_port(), std::min(under_way, clients_at_most)};
    auto const every = 5ms;  // a look costs the server a tenth of a saga
    auto const from = wall::now() + std::chrono::seconds{b.chosen.warm_up};
    auto const until = from + std::chrono::seconds{b.chosen.seconds};
    std::optional<cpu_split> cpu_before;
    services.wait_for("the load", std::chrono::seconds{b.chosen.warm_up + b.chosen.seconds} + 60s, every, [&] {
        // Of those alone: to count all that have ended costs more than a saga, and more with each.
        load.top_up(ask(databases.at(orders), sql::ended_of, load.under_way()), under_way);
        if (!cpu_before && wall::now() >= from) cpu_before = meters.cpu(services);
        return wall::now() >= until;
    });
    if (cpu_before) made.cpu = meters.cpu(services) - *cpu_before;
    load.end();
    services.wait_for("the last sagas", 600s, 20ms, [&] {
        load.top_up(ask(databases.at(orders), sql::ended_of, load.under_way()), 0);
        return load.under_way() == "{}" && !is_anything_unsent(databases);
    });
    services.stop();

    std::vector<double> ends;
    std::int64_t in_window = 0;
    for (auto const& row : ask(databases.at(orders), sql::ends, since)) {
        auto const sent = load.sent().find(row[0].c_str());
        auto const ended = time_of(row[1].as<double>());
        if (sent == load.sent().end()) throw std::runtime_error{"a saga that nobody has placed"};
        in_window += ended >= from && ended < until;
        if (sent->second >= from && sent->second < until)
            ends.push_back(std::chrono::duration<double, std::milli>(ended - sent->second).count());
    }
    made.sagas = std::ssize(ends);
    made.per_second = static_cast<double>(in_window) / b.chosen.seconds;
    made.completed_ms = percentiles_of(std::move(ends));
    databases.disconnect_all();
    auto const counted = count_on_server(databases) - counted_before;
    made.wal_bytes_a_saga = static_cast<double>(counted.wal_bytes) / static_cast<double>(std::ssize(load.sent()));
    return made;
}

}  // namespace skald_bench
