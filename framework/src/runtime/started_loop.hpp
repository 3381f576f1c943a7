// Runs started steps: takes those that are due, makes their calls, renews the leases meanwhile, and has their ends
// recorded. Three kinds of threads: one keeper, which owns a database connection; those that call, which own nothing;
// and those that settle, each with an executor.
#pragma once

#include "core/breaker.hpp"
#include "core/log.hpp"
#include "ports/started.hpp"
#include "runtime/breaker_notes.hpp"
#include "runtime/executor.hpp"
#include "runtime/held_step.hpp"
#include "runtime/started_work.hpp"

#include <skald/dependency.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace skald::runtime {

struct started_options
{
    std::string owner;    // this process, for people
    std::size_t calls{};  // threads that call run_calls()
    std::chrono::milliseconds poll{200};
};

/// Threads: run() one, run_calls() and run_settles() as many as there are; notify(), stop() and dependencies() any.
class started_loop
{
public:
    /// `table` is the keeper's, `heartbeats` is shared by the calls. All outlive the loop.
    started_loop(started_options options, std::string service, registry const& steps,
                 std::map<std::string, dependency_limits> const& limits, ports::started_steps& table,
                 ports::started_steps& heartbeats, core::logger& log);
    ~started_loop();

    /// Whether there is anything that it could ever do.
    static bool is_needed(registry const& steps);

    void run();
    void run_calls();
    void run_settles(executor& executor);

    /// A step may have started, or a signal come.
    void notify();

    /// Takes nothing more, asks running calls to end, and ends the threads when what has ended is recorded.
    void stop();

    std::vector<dependency_state> dependencies() const;

private:
    using clock = std::chrono::steady_clock;
    using ended_step = std::pair<std::shared_ptr<held_step>, second_transaction>;
    struct dependency
    {
        core::breaker breaker;
    };

    void keep();
    void release_all();
    std::size_t room_to_settle() const;
    std::size_t take_waits();
    std::size_t take_ending();
    std::size_t take_calls(std::string const& name);
    void begin(ports::started_steps::taken&& row, clock::time_point asked);
    void follow(std::shared_ptr<held_step> const& one, started_next&& next);
    void release(std::shared_ptr<held_step> const& one, ports::started_release const& what);
    void forget(std::shared_ptr<held_step> const& one);
    ports::started_steps::renewal renew_one(ports::started_steps::held const& now);
    void renew();
    std::chrono::milliseconds until_next() const;
    void ended(std::shared_ptr<held_step> const& one, core::call_result how);
    std::vector<ended_step> take_ended();
    bool settle_together(std::vector<ended_step>& all, executor& executor);
    void settle(std::shared_ptr<held_step> const& one, executor& executor);
    bool has_ended() const;

    started_options const options_;
    std::string const service_;
    registry const& steps_;
    ports::started_steps& table_;
    ports::started_steps& heartbeats_;
    core::logger& log_;
    breaker_notes notes_;  // the keeper's

    std::set<std::string> called_;  // the dependencies that steps call
    bool has_waits_{};

    std::mutex heartbeat_mutex_;  // guards heartbeats_
    std::mutex mutable mutex_;    // guards what follows
    std::condition_variable changed_;
    std::map<std::string, dependency> dependencies_;  // by name; '' is that of calls that name none
    std::vector<std::shared_ptr<held_step>> held_;
    std::deque<std::shared_ptr<held_step>> to_call_;
    std::deque<ended_step> to_settle_;
    std::deque<ports::started_release> to_release_;
    std::deque<ports::started_release> locked_;  // to be released in the next round
    bool is_notified_{};
    bool is_stopped_{};
    bool keeper_has_ended_{};
};

}  // namespace skald::runtime
