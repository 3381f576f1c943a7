// The executor: processes deliveries in the database, each taking effect exactly once. Its caller acks afterwards.
//
// The product is this order of operations: begin and claim; run the steps; write what follows and commit; dispatch what
// was committed. A single delivery is a batch of one. See docs/protocol.md, "One step".
#pragma once

#include "core/log.hpp"
#include "metrics/step_metrics.hpp"
#include "ports/store.hpp"
#include "runtime/group_trace.hpp"
#include "runtime/lane_counts.hpp"
#include "runtime/memory_source.hpp"
#include "runtime/policy.hpp"
#include "runtime/running_groups.hpp"
#include "runtime/step_consequences.hpp"
#include "runtime/task.hpp"
#include "tracing/tracer.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace skald::runtime {

struct run_options
{
    bool takes_turn{};  // waits for the transactions of other processes that take turns, and they for it
    std::chrono::milliseconds lock_wait{25};  // of several deliveries together, for a lock that another session holds
    bool waits_briefly{};                     // for a lock, even if it is alone: the step is blocked somewhere
    running_member* running{};                // where to record which member runs; null: nowhere
};

/// The outcome of deliveries that were run together: either all of them are final, to be acked; or none is, and `why`
/// says what failed and `then` what to do.
struct run_result
{
    struct setback
    {
        failure why{};
        reaction then{};
        std::string error;
        std::optional<std::size_t> member{};  // whose statement it was, if known
    };

    std::optional<setback> not_processed;
    std::chrono::steady_clock::duration ran{};  // the steps' own code

    bool processed() const { return !not_processed; }
};

/// Threads: one executor for each lane.
class executor
{
public:
    /// `counts` is one for all lanes of a process. `traces`: for spans of what runs; null: none.
    executor(std::string service, ports::store& store, memory_source& out, core::logger& log, std::mt19937_64 random,
             std::shared_ptr<lane_counts> counts = std::make_shared<lane_counts>(), tracing::tracer* traces = nullptr);

    /// One task of any kind; or several of one step in one direction, none of them marked `alone`; or several reports
    /// of one kind. Never throws what the database or a step throws.
    run_result run(std::span<task> tasks, run_options const& how = {});

    /// What to call when a call or a wait may be due, after the COMMIT: a step has started, a signal or a command came.
    void on_started(std::function<void()> tell) { on_started_ = std::move(tell); }

    /// Parks a delivery that can't be processed at all, and reports it to its saga's home. Throws ports::fault.
    void park_refused(task const& t, std::string const& why);

    /// Records the limits of steps that have changed, for operators. Never throws: no guarantee depends on it.
    void record_contention(std::vector<ports::contention> changed) noexcept;

private:
    struct attempt;

    run_result run_steps(std::span<task> tasks, run_options const& how);
    std::optional<run_result::setback> read_message(task& t);

    /// A transaction that did not commit, and the member that caused it, if known.
    struct aborted
    {
        failure why{};
        std::string error;
        std::optional<std::size_t> member;
        std::optional<step_result> how{};  // the member's
    };

    static step_result end_of(aborted&& met);
    std::optional<run_result::setback> after_abort(attempt& a, aborted&& met);
    std::optional<aborted> try_once(attempt& a);
    std::vector<ports::claim_answer> claim(attempt& a);
    std::optional<aborted> run_members(attempt& a, std::span<ports::claim_answer const> claimed);
    std::optional<aborted> run_together(attempt& a, std::vector<std::size_t> const& members);
    std::optional<aborted> run_member(attempt& a, std::size_t member, int number);
    step_result run_step(attempt& a, std::size_t member, int number);
    static step_result end_of_first(step_message const& step, std::string const& received, detail::step_run& run,
                                    step_context const& ctx);
    step_result run_second(task& t, group_trace& trace, std::size_t member, int number);
    step_result run_message(task const& t, detail::step_run& run, int number);
    static bool settle_rejected(task& t, std::optional<step_result>& end);
    std::optional<aborted> undo_member(attempt& a, std::size_t member, step_result how);
    void roll_back();
    void commit_steps(attempt& a, std::span<ports::claim_answer const> claimed);
    void log_outcome(task const& t, happened const& what);
    void log_left_behind(task const& first);

    metrics::direction_metrics& counts_of(task const& first);
    void count_abort(metrics::direction_metrics& counts, failure why);
    void count_outcome(metrics::direction_metrics& counts, task const& t, ports::claim_answer const& claimed,
                       happened const& what);

    run_result run_others(std::span<task> tasks);
    void take_in(std::span<task> reports);
    void take_command(task const& t);
    bool await_deploy(task const& t, unreadable_message const& bad);
    void park(task const& t, std::string_view reason, std::string const& why);
    bool park_and_log(task const& t, std::string const& why);
    void commit_and_count(attempt& a, ports::changes& changes);
    void commit(ports::changes& changes);

    bool often_fails(registered_step const& step) const;
    void record_result(registered_step const& step, bool fails);

    std::string service_;
    ports::store& store_;
    memory_source& out_;
    core::logger& log_;
    std::mt19937_64 random_;
    std::shared_ptr<lane_counts> counts_;
    tracing::tracer* traces_;
    std::function<void()> on_started_;
    std::map<registered_step const*, double> failure_rate_;  // the recent share of runs that did not end in `done`
};

}  // namespace skald::runtime
