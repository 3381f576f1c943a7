// A service of the harness: its database and connections, which outlive a run, and its state during a run.
#pragma once

#include "core/log.hpp"
#include "memory/memory_transport.hpp"
#include "postgres/postgres_started.hpp"
#include "runtime/registry.hpp"
#include "testing/fault_plan.hpp"
#include "testing/observed_step.hpp"
#include "testing/service_database.hpp"
#include "testing/stepped_process.hpp"
#include "testing/watched_relay.hpp"
#include "testing/watched_store.hpp"

#include <skald/config.hpp>
#include <skald/service.hpp>

#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skald::testing::inner {

/// Threads: one.
class node final : private stepped_process::part_listener
{
public:
    node(std::string service, fault_plan& at, script& rules, watched_outbox::naming name);

    // --- Before the first run ---

    /// A step as the user supplied it.
    struct hosted
    {
        std::string definition;
        std::string step;
        runtime::registered_step as;
    };

    /// Throws configuration_error if that step was already added.
    void host(hosted what);
    bool hosts(std::string_view definition, std::string_view step) const
    {
        return steps_.find(definition, step) != nullptr;
    }
    runtime::registry const& steps() const { return steps_; }

    std::vector<hosted> const& all_hosted() const { return hosted_; }

    /// What the step does between two transactions, if it has two.
    std::optional<ports::started_kind> started_kind_of(std::string_view definition, std::string_view step,
                                                       bool is_forward) const;

    /// The steps that make calls, as their records name them.
    std::vector<std::string> calls() const;

    /// From the next begin() on, limits the attempts of each step.
    void limit_attempts(int attempts_max) { attempts_max_ = attempts_max; }

    /// Each makes its steps anew when the process starts again.
    std::vector<std::function<service()>> makers;

    std::vector<postgres::migration> migrations;
    std::string given;

    /// From then on its migrations and what is given are settled.
    bool has_database() const { return database_ != nullptr; }

    /// Creates the database, once.
    service_database& open(server& on);

    // --- Between runs ---

    /// Resets the database to its initial state, and starts the process, connected to that broker.
    void begin(memory::memory_transport& transport);

    // --- In a run ---

    /// Records in the script what its steps leave behind in their sessions.
    void inspect_sessions(bool does) { store_->inspect_sessions(does); }

    /// Sends what is due, one message after the other. Returns whether there was any.
    bool relay();

    std::vector<ports::delivery> take() { return process_->deliveries().take(take_max, {}); }

    /// Processes the delivery as a lane does, with another attempt if the database was at fault, and acks it.
    void process(ports::delivery const& d);

    /// On a separate connection, as another lane would at the same time.
    void process_apart(ports::delivery const& d);

    /// Goes on with a started step that is due. False if none is.
    bool go_on();

    /// Simulates a crash: the process loses its connections, its memory and its unacked deliveries. It restarts at
    /// once.
    void die(memory::memory_transport& transport);

    /// Moves the clock of its database and its steps.
    void advance(std::chrono::milliseconds time);
    std::chrono::milliseconds ahead() const { return ahead_; }

    /// There may be something to send.
    void wake() { woken_ = true; }

    service_database& database() { return *database_; }
    std::string const& name() const { return name_; }

private:
    static constexpr std::size_t take_max = 1000;

    void host_all();
    void make_anew();
    void record_hosted();
    runtime::registered_step observed(hosted const& one);
    void enters(std::string const& part) override;
    void called() override;
    std::vector<ports::handler_queue> handler_queues() const;
    void start(memory::memory_transport& transport);

    std::string name_;
    fault_plan& fault_plan_;
    script& rules_;
    watched_outbox::naming naming_;
    std::vector<hosted> hosted_;
    int attempts_max_{std::numeric_limits<int>::max()};
    runtime::registry steps_{config{}.deploy_wait};
    std::map<std::string, ports::started_kind, std::less<>> waits_;  // its steps of two transactions, as in a record
    core::silent_logger log_;
    std::unique_ptr<service_database> database_;
    std::unique_ptr<watched_store> store_;
    std::unique_ptr<watched_outbox> outbox_;
    std::unique_ptr<postgres::postgres_started> started_;
    std::unique_ptr<postgres::postgres_store> apart_;
    std::unique_ptr<stepped_process> process_;
    std::chrono::milliseconds ahead_{};  // of the server's clock
    bool woken_{};
};

}  // namespace skald::testing::inner
