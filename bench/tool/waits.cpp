#include "waits.hpp"

#include "bench_tool_sql.hpp"
#include "open_load.hpp"
#include "waiting_services.hpp"

#include "rig/http.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using json = nlohmann::ordered_json;

constexpr int started_together = 500;
constexpr double signals_per_second = 200;
constexpr auto waits_patience = 900s;

struct timer_times
{
    double first_ms{}, apart_ms{};
};

void start_sagas(waiting_services& w, std::string const& definition, std::string const& prefix, int count,
                 timer_times const& due = {})
{
    for (int n = 0; n < count; n += started_together)
        ask(w.database(), sql::start_waiting, prefix, n, std::min(started_together, count - n), definition,
            due.first_ms, due.apart_ms);
}

/// Until all of them wait, and nothing else is going on.
void wait_until_all_wait(waiting_services& w, int count)
{
    w.wait_for("beginning to wait", waits_patience, [&] {
        auto const now = ask(w.database(), sql::waiting_now)[0];
        return now[0].as<int>() == count && now[3].as<int>() == 0;
    });
}

void check_passed(waiting_services& w, std::string const& prefix, std::int64_t count)
{
    w.wait_for("going on", waits_patience,
               [&] { return ask(w.database(), sql::passed, prefix)[0][2].as<std::int64_t>() >= count; });
    auto const met = ask(w.database(), sql::passed, prefix)[0];
    if (met[0].as<std::int64_t>() != count || met[1].as<std::int64_t>() != count || met[3].as<std::int64_t>() != 0)
        throw std::runtime_error{fmt::format("wrong: of {} sagas {} went on, {} of them different, {} are parked",
                                             count, met[0].c_str(), met[1].c_str(), met[3].c_str())};
}

struct held_figures
{
    double sessions{}, busy{}, in_transaction{};  // means of the samples
    std::uint32_t ready{};
};

/// Looked at a hundred times within five seconds.
held_figures look_at_what_is_held(bench const& b, waiting_services& w)
{
    constexpr int samples = 100;
    held_figures all;
    for (int n = 0; n < samples; ++n) {
        auto const now = ask(w.database(), sql::sessions_now)[0];
        all.sessions += now[0].as<double>() / samples;
        all.busy += now[1].as<double>() / samples;
        all.in_transaction += now[2].as<double>() / samples;
        b.interruptions.wait_for(50ms);
    }
    all.ready = w.ready_messages();
    return all;
}

void tell_held(report& out, char const* when, held_figures const& f)
{
    out.say(fmt::format("{:<36} sessions {:.1f}, busy {:.2f}, in a transaction {:.2f}; messages in the queue {}", when,
                        f.sessions, f.busy, f.in_transaction, f.ready));
    out.add(json{{"label", when},
                 {"sessions", f.sessions},
                 {"busy", f.busy},
                 {"in_transaction", f.in_transaction},
                 {"ready", f.ready}});
}

/// What was delivered and not acked is back in the queue when its consumer is dead.
void kill_and_count(report& out, waiting_services& w)
{
    w.at(0).kill();
    w.wait_for("the end of its consumer", 60s, [&] { return w.consumers() == 0; });
    auto const under_way = w.ready_messages();
    out.say(fmt::format("{:<36} messages that come back to the queue: {}", "the process was killed", under_way));
    out.add(json{{"label", "killed while they wait"}, {"messages_back", under_way}});
    w.restart(0);
}

/// Of each signal by number, since 1970: when it was due, or sent.
using signal_times = std::vector<double>;

signal_times at_a_steady_rate(waiting_services& w, int count, std::function<open_load::client()> const& connect)
{
    open_load load{signals_per_second, static_cast<std::size_t>(count), connect};
    w.wait_for("giving the signals", waits_patience, [&] { return load.finished(); });
    signal_times due_ms;
    for (std::size_t n = 0; n < load.answers().size(); ++n) due_ms.push_back(milliseconds_of(load.loop().due(n)));
    return due_ms;
}

void must_be_kept(std::string const& answer)
{
    if (answer != "kept") throw std::runtime_error{"a signal was not kept: " + answer};
}

open_load::client by_sql(waiting_services& w, std::string const& prefix)
{
    auto const own = std::make_shared<pqxx::connection>(w.databases().url(orders));
    return [own, prefix](std::size_t n) {
        must_be_kept(ask(*own, sql::send_signal, prefix + std::to_string(n))[0][0].c_str());
    };
}

open_load::client over_http(waiting_services& w, std::string const& prefix)
{
    auto const client = std::make_shared<skald::rig::http_client>(w.http_port(), 30s);
    return [client, prefix](std::size_t n) {
        auto const key = prefix + std::to_string(n);
        auto const answer =
            client->Post("/sagas/" + key + "/signals/approve", {{"Idempotency-Key", "\"approval-of-" + key + '"'}},
                         R"({"by": "ada"})", "application/json");
        if (!answer || answer->status != 202)
            throw std::runtime_error{"a signal over HTTP was not taken: " + (answer ? answer->body : "no response")};
    };
}

signal_times as_fast_as_it_goes(bench const& b, waiting_services& w, std::string const& prefix, int count)
{
    signal_times sent_ms(static_cast<std::size_t>(count));
    std::exception_ptr failure;
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < b.chosen.connections; ++t)
            threads.emplace_back([&, t] {
                try {
                    auto const send = by_sql(w, prefix);
                    for (int n = t; n < count; n += b.chosen.connections) {
                        auto const number = static_cast<std::size_t>(n);
                        sent_ms[number] = milliseconds_now();
                        send(number);
                    }
                }
                catch (...) {
                    failure = std::current_exception();  // any of them
                }
            });
    }
    if (failure) std::rethrow_exception(failure);
    return sent_ms;
}

json as_json(percentiles const& p)
{
    return {{"count", p.count}, {"p50", p.p50}, {"p95", p.p95}, {"p99", p.p99}, {"p999", p.p999}, {"max", p.max}};
}

std::string in_words(percentiles const& p)
{
    return fmt::format("p50 {:.0f} ms, p95 {:.0f}, p99 {:.0f}, most {:.0f}", p.p50, p.p95, p.p99, p.max);
}

void tell_signals(report& out, waiting_services& w, char const* label, std::string const& prefix,
                  signal_times const& since_ms)
{
    std::vector<double> ms;
    for (auto const& row : ask(w.database(), sql::passed_at, prefix))
        ms.push_back(row[1].as<double>() - since_ms.at(std::stoul(row[0].as<std::string>().substr(prefix.size()))));
    auto const count = static_cast<double>(ms.size());
    auto const found = percentiles_of(std::move(ms));
    auto const times = ask(w.database(), sql::signal_seconds, prefix)[0];
    auto const signals = count / std::max(times[0].as<double>(), 0.001), sagas = count / times[1].as<double>();
    out.say(fmt::format("{:<36} {:.0f} signals: {:.0f} a second, {:.0f} sagas a second; to the next step {}", label,
                        count, signals, sagas, in_words(found)));
    out.add(json{{"label", label},
                 {"signals_per_second", signals},
                 {"sagas_per_second", sagas},
                 {"to_next_step_ms", as_json(found)}});
}

}  // namespace

void run_signals(bench const& b, report& out)
{
    waiting_services w{b, 1};
    auto const count = b.chosen.waiting, slow = count / 5;
    // Lanes connect when they have something to do.
    start_sagas(w, "bench-approval", "warm-up-", slow);
    wait_until_all_wait(w, slow);
    as_fast_as_it_goes(b, w, "warm-up-", slow);
    check_passed(w, "warm-up-", slow);
    tell_held(out, "no saga", look_at_what_is_held(b, w));
    start_sagas(w, "bench-approval", "http-", slow);
    start_sagas(w, "bench-approval", "sql-", slow);
    start_sagas(w, "bench-approval", "fast-", count - 2 * slow);
    wait_until_all_wait(w, count);
    tell_held(out, fmt::format("{} sagas wait", count).c_str(), look_at_what_is_held(b, w));
    kill_and_count(out, w);

    auto const http = at_a_steady_rate(w, slow, [&] { return over_http(w, "http-"); });
    auto const by_statement = at_a_steady_rate(w, slow, [&] { return by_sql(w, "sql-"); });
    check_passed(w, "http-", slow);
    check_passed(w, "sql-", slow);
    auto const fast = as_fast_as_it_goes(b, w, "fast-", count - 2 * slow);
    check_passed(w, "fast-", count - 2 * slow);
    tell_signals(out, w, "over HTTP, 200 a second", "http-", http);
    tell_signals(out, w, "by SQL, 200 a second", "sql-", by_statement);
    tell_signals(out, w, "by SQL, as fast as it goes", "fast-", fast);
    w.stop();
}

namespace {

void tell_lateness(report& out, std::string const& label, std::vector<double> ms)
{
    auto const later = std::ranges::count_if(ms, [](double one) { return one > 1'000; });
    auto const found = percentiles_of(std::move(ms));
    out.say(fmt::format("{:<36} {} timers: late by {}; by more than a second {}", label, found.count, in_words(found),
                        later));
    out.add(json{{"label", label}, {"late_ms", as_json(found)}, {"later_than_a_second", later}});
}

}  // namespace

void run_timers(bench const& b, report& out)
{
    waiting_services w{b, 1};
    auto const count = b.chosen.timers;
    auto const began = clock::now();
    timer_times const due{milliseconds_now() + b.chosen.lead_seconds * 1'000.0,
                          b.chosen.over_seconds * 1'000.0 / count};
    start_sagas(w, "bench-timer", "timer-", count, due);
    w.wait_for("beginning to sleep", waits_patience, [&] {
        if (milliseconds_now() > due.first_ms)
            throw std::runtime_error{"the first timer is over before the last one began: give a longer --lead"};
        auto const now = ask(w.database(), sql::waiting_now)[0];
        return now[2].as<int>() == count && now[3].as<int>() == 0;
    });
    out.say(fmt::format("{:<36} {:.0f} s until all of them slept", "started by SQL",
                        std::chrono::duration<double>(clock::now() - began).count()));
    w.wait_for("half of the timers", std::chrono::seconds{b.chosen.lead_seconds + b.chosen.over_seconds},
               [&] { return milliseconds_now() >= due.first_ms + b.chosen.over_seconds * 500.0; });
    auto const killed_at = milliseconds_now();
    w.at(0).kill();
    auto const in_hand = ask(w.database(), sql::waiting_now)[0][1].as<int>();
    w.restart(0);
    auto const back_at = milliseconds_now();
    check_passed(w, "timer-", count);
    std::vector<double> before, after, next_before, next_after;
    for (auto const& row : ask(w.database(), sql::lateness)) {
        auto const due_at = row[0].as<double>(), late = row[1].as<double>(), next_late = row[2].as<double>();
        (due_at + late < killed_at ? before : after).push_back(late);
        (due_at + next_late < killed_at ? next_before : next_after).push_back(next_late);
    }
    out.say(fmt::format("{:<36} it was ready again after {:.0f} ms; {} timers had been taken and not ended",
                        "killed half-way and started again", back_at - killed_at, in_hand));
    out.add(json{{"label", "killed"}, {"ready_after_ms", back_at - killed_at}, {"in_hand", in_hand}});
    tell_lateness(out, "over before it was killed", std::move(before));
    tell_lateness(out, "over after that", std::move(after));
    tell_lateness(out, "the step after them, before", std::move(next_before));
    tell_lateness(out, "the step after them, after that", std::move(next_after));
    w.stop();
}

}  // namespace skald_bench
