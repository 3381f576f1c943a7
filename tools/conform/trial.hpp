// One run: sends the sagas to the participant, disturbs it, and gathers what shows.
#pragma once

#include "conform/database.hpp"
#include "conform/processes.hpp"
#include "conform/spoilt.hpp"
#include "conform/wire.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace skald::conform {

struct trial_options
{
    std::string service;
    std::string command;
    std::string relay;  // the command of the relay
    std::string broker_url;
    postgres::connection_options database;
    std::string log;  // of the processes; empty: stderr
    std::string run;  // how its keys begin
    std::uint64_t seed{};
    int processes{};
    std::chrono::milliseconds patience{};
    std::chrono::milliseconds longest{};  // the whole run: after that, nothing is waited for any more
    std::function<bool()> is_interrupted;
    std::function<void(std::string_view)> tell;
};

/// Somebody wants this process to end.
struct interrupted : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// The relay has ended: what the participant sends stays where it is, and nothing can be said of it.
struct relay_ended : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// Threads: one. Throws interrupted, relay_ended, configuration_error where the command does not consume, or can't be
/// killed, and what the servers' clients throw.
class trial
{
public:
    /// The database is the service's, and has Skald's schema; the queues are declared. Throws configuration_error where
    /// the outbox is not empty.
    explicit trial(trial_options options);
    /// Leaves the participant's queues and its outbox empty, as they were.
    ~trial();
    trial(trial const&) = delete;
    trial& operator=(trial const&) = delete;

    seen run(plan const& planned, std::vector<spoilt_message> const& spoilt);

private:
    void start_all();
    void kill_all();
    bool await_consumers();
    void await_no_consumers();
    void send_duplicated(plan const& planned, std::vector<spoilt_message> const& spoilt);
    void send_again(saga const& s);
    void send_first(saga const& s, wire::way by);
    void trouble_in(saga const& s);
    void strike(saga const& s, int session);
    void stop_under_load(std::vector<saga> const& all);
    void open_gates();
    void settle();
    void hold_each_process(std::vector<saga> const& all, std::size_t holders);
    void terminate_all();
    void await_ends();
    void stop_and_count();

    void send(core::message const& message, wire::way by, wire_form form = wire_form::text);
    void pump();
    void look_after();
    bool has_ended(saga const& s) const;
    /// False if nothing has moved for as long as patience allows, or the time of the run is over. It waits for `what`.
    bool await(std::string_view what, std::function<bool()> const& condition);
    void await_end_of(std::vector<saga> const& all);
    void pump_for(std::chrono::milliseconds time);
    void look_away_for(std::chrono::milliseconds time);  // whoever ends is not started again

    trial_options options_;
    database database_;
    wire wire_;
    process relay_;
    std::vector<std::unique_ptr<process>> processes_;
    seen seen_;
    std::uint64_t came_{};        // messages at the home that said something new
    std::set<saga_name> opened_;  // gates
    int may_end_{};               // processes, whose connection was cut
    std::chrono::steady_clock::time_point ends_at_, may_end_until_;
};

}  // namespace skald::conform
