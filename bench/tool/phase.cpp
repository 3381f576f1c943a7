#include "phase.hpp"

#include "bench_tool_sql.hpp"
#include "sink.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto tick = 5ms;
constexpr int started_together_max = 500;
constexpr int parts = 10;
constexpr auto drain_patience = 300s;

std::string server_now(bench_databases& databases)
{
    return ask(databases.at(orders), sql::server_now)[0][0].c_str();
}

/// Another session's long transaction, one in each database: from now on no dead row can be vacuumed away.
class held_snapshot
{
public:
    explicit held_snapshot(bench_databases& databases)
    {
        for (std::size_t i = 0; i < service_names.size(); ++i) {
            auto& connection = connections_.emplace_back(std::make_unique<pqxx::connection>(databases.url(i)));
            ask(*connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
            ask(*connection, sql::server_now);
        }
    }

private:
    std::vector<std::unique_ptr<pqxx::connection>> connections_;
};

/// The load, advanced at every tick.
class closed_loop
{
public:
    closed_loop(bench const& b, bench_databases& databases, fleet const& services, machine const& meters,
                phase_request const& asked)
        : b_{b}, databases_{databases}, services_{services}, meters_{meters}, asked_{asked},
          starter_{databases, asked.ordered_keys, b.chosen.start_by_function}
    {
        begin_window_if_due();
    }

    void run(phase_figures& made)
    {
        auto const seconds = std::chrono::seconds{asked_.seconds};
        services_.wait_for(asked_.label.c_str(), seconds + std::chrono::seconds{b_.chosen.warm_up} + drain_patience,
                           tick, [&] { return move_on(); });
        made.sagas = starter_.started();
        made.cpu = used_;
        look_at_window(made);
    }

private:
    bool by_count() const { return b_.chosen.sagas > 0; }
    bool is_all_started() const { return by_count() ? starter_.started() >= b_.chosen.sagas : !window_end_.empty(); }

    bool move_on()
    {
        auto const under_way = starter_.under_way();
        begin_window_if_due();
        end_window_if_due(under_way);
        if (!is_all_started()) {
            start_more(b_.chosen.in_flight - under_way);
            return false;
        }
        return under_way == 0 && !window_end_.empty() && !is_anything_unsent(databases_);
    }

    // A few at a time cost more than many, and there is no hurry: enough are under way.
    void start_more(std::int64_t missing)
    {
        if (by_count()) missing = std::min(missing, b_.chosen.sagas - starter_.started());
        else if (missing < b_.chosen.in_flight / 20) return;
        if (missing > 0) starter_.start(static_cast<int>(std::min<std::int64_t>(missing, started_together_max)));
    }

    void begin_window_if_due()
    {
        if (!window_start_.empty() || (!by_count() && clock::now() < began_ + std::chrono::seconds{b_.chosen.warm_up}))
            return;
        window_start_ = server_now(databases_);
        used_at_start_ = meters_.cpu(services_);
        window_began_ = clock::now();
    }

    void end_window_if_due(std::int64_t under_way)
    {
        if (window_start_.empty() || !window_end_.empty()) return;
        bool const over = by_count() ? is_all_started() && under_way == 0
                                     : clock::now() >= window_began_ + std::chrono::seconds{asked_.seconds};
        if (!over) return;
        window_end_ = server_now(databases_);
        window_length_ = clock::now() - window_began_;
        used_ = meters_.cpu(services_) - used_at_start_;
    }

    void look_at_window(phase_figures& made)
    {
        made.window_seconds = window_length_.count();
        made.ended_in_window =
            ask(databases_.at(orders), sql::ended_between, window_start_, window_end_)[0][0].as<std::int64_t>();
        made.per_second = static_cast<double>(made.ended_in_window) / made.window_seconds;
        made.per_second_by_part.assign(parts, 0);
        for (auto const& row : ask(databases_.at(orders), sql::ended_by_part, window_start_, window_end_, parts))
            made.per_second_by_part.at(row[0].as<std::size_t>()) = row[1].as<double>() * parts / made.window_seconds;
    }

    bench const& b_;
    bench_databases& databases_;
    fleet const& services_;
    machine const& meters_;
    phase_request const& asked_;
    saga_starter starter_;
    clock::time_point began_{clock::now()}, window_began_{};
    std::chrono::duration<double> window_length_{};
    std::string window_start_, window_end_;
    cpu_split used_at_start_, used_;
};

}  // namespace

double rate_between(growth const& series, std::int64_t from, std::int64_t to)
{
    auto const reached = [&](std::int64_t count) {
        return *std::ranges::find_if(series, [&](auto const& point) { return point.second >= count; });
    };
    auto const first = reached(from), last = reached(to);
    return last.first > first.first ? static_cast<double>(last.second - first.second) / (last.first - first.first) : 0;
}

double first_quarter(growth const& series, std::int64_t all)
{
    return rate_between(series, 1, std::max<std::int64_t>(all / 4, 1));
}

phase_figures run_phase(bench const& b, bench_databases& databases, phase_request const& request)
{
    phase_figures made;
    made.asked = request;
    if (made.asked.seconds == 0) made.asked.seconds = b.chosen.seconds;
    databases.settle_down();
    auto const shop_before = count_shop(databases);
    databases.disconnect_all();
    auto const server_before = count_on_server(databases);
    std::optional<held_snapshot> held;
    if (made.asked.hold_snapshot) held.emplace(databases);
    machine const meters{databases, broker_port(b.chosen, made.asked.who)};
    fleet services{b.chosen, b.interruptions, databases, {made.asked.who, made.asked.tcp}};
    closed_loop{b, databases, services, meters, made.asked}.run(made);
    made.peak_rss_mib = meters.peak_rss_mib(services);
    services.stop();
    held.reset();
    databases.disconnect_all();
    made.counts = count_on_server(databases) - server_before;
    check_shop(shop_before, count_shop(databases), made.sagas);
    return made;
}

backlog_figures run_backlog(bench const& b, bench_databases& databases, implementation who)
{
    message_sink const sink{b.chosen, databases, who};
    auto const messages = b.chosen.backlog;
    ask(databases.at(orders), sql::backlog, messages, std::string{itinerary});
    databases.settle_down();
    auto const deleted_before = count_on_server(databases).rows["skald.outbox"].deleted;
    machine const meters{databases, broker_port(b.chosen, who)};

    backlog_figures made{who, messages, {}, {}, {}, {}};
    auto const began = clock::now();
    fleet services{b.chosen, b.interruptions, databases, {who, b.chosen.tcp, false, 1, {orders}}};
    growth series{{0.0, 0}};
    services.wait_for("emptying the backlog", 3'600s, 100ms, [&] {
        auto const deleted = count_on_server(databases).rows["skald.outbox"].deleted - deleted_before;
        std::chrono::duration<double> const after = clock::now() - began;
        if (deleted > series.back().second) series.emplace_back(after.count(), deleted);
        return deleted >= messages;
    });
    if (ask(databases.at(orders), sql::is_backlog_left)[0][0].as<bool>())
        throw std::runtime_error{"the outbox is not empty"};
    made.seconds = series.back().first;
    made.first_quarter_per_second = first_quarter(series, messages);
    made.last_quarter_per_second = rate_between(series, messages - messages / 4, messages);
    made.peak_rss_mib = meters.peak_rss_mib(services);
    services.stop();
    return made;
}

}  // namespace skald_bench
