// A transaction of steps: claim, run, write what follows, commit. If one of several fails, the whole transaction is
// rolled back and all run again, each under a savepoint, so that only that one is undone. See docs/batches.md.
#include "runtime/executor.hpp"

#include "core/assert.hpp"
#include "core/failpoint.hpp"
#include "ports/body_store.hpp"
#include "runtime/consequences.hpp"
#include "runtime/upcasting.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

// How long several deliveries wait for one of their keys that another transaction holds. A single one may wait longer.
constexpr auto key_wait = 100ms;

// How long a single delivery waits for a lock, if its step has met one that is not released.
constexpr auto brief_lock_wait = 100ms;

constexpr char const* ended_by_step = "the step ran COMMIT or ROLLBACK itself; look at what it wrote";
constexpr char const* went_on_after_error =
    "the step went on after an SQL error; let the exception pass, or use a SAVEPOINT";

}  // namespace

/// What is being tried, and what is known from before about how the members ended.
struct executor::attempt
{
    std::span<task> tasks{};
    run_options how{};
    metrics::direction_metrics& counts;
    group_trace& trace;
    bool guards_each{};  // a savepoint for each, so that one can be undone alone
    bool is_recording{};
    bool finishes_first{};                           // the steps' deferred constraints run apart from what Skald writes
    bool is_claimed{};                               // in this try
    std::vector<std::optional<step_result>> ends{};  // by member
    clock::duration ran{};                           // the steps' own code, in the last try

    registered_step const* hosted() const { return tasks.front().step()->hosted; }
    bool is_one() const { return tasks.size() == 1; }
    void says_running(std::size_t member) const
    {
        if (how.running != nullptr) how.running->is(member);
    }
};

executor::executor(std::string service, ports::store& store, memory_source& out, core::logger& log,
                   std::mt19937_64 random, std::shared_ptr<lane_counts> counts, tracing::tracer* traces)
    : service_{std::move(service)}, store_{store}, out_{out}, log_{log}, random_{random}, counts_{std::move(counts)},
      traces_{traces}
{}

run_result executor::run(std::span<task> tasks, run_options const& how)
{
    SKALD_ASSERT(!tasks.empty());
    SKALD_ASSERT(tasks.size() == 1 || std::ranges::none_of(tasks, &task::alone));
    auto& first = tasks.front();
    if (first.is_unread())
        if (auto met = read_message(first)) return {std::move(met)};
    if (first.step() == nullptr) return run_others(tasks);
    auto result = run_steps(tasks, how);
    first.forget_body();
    return result;
}

run_result executor::run_steps(std::span<task> tasks, run_options const& how)
{
    group_trace trace{traces_, service_, tasks};
    attempt now{tasks, how, counts_of(tasks.front()), trace};
    now.ends.resize(tasks.size());
    if (auto const& refused = tasks.front().refused) now.ends.front() = *refused;
    now.guards_each = !now.is_one() && !tasks.front().second && often_fails(*now.hosted());
    // Before a failed COMMIT counts as an attempt, it must be known whether the step caused it.
    now.finishes_first = now.is_one() && tasks.front().tries > 0;
    run_result result;
    while (auto met = try_once(now)) {
        count_abort(now.counts, met->why);
        trace.aborted(met->error);
        result.not_processed = after_abort(now, *std::move(met));
        if (result.not_processed) break;
    }
    result.ran = now.ran;
    log_left_behind(tasks.front());
    return result;
}

// What policy.hpp says of an aborted transaction: a setback if it is for the dispatcher to run the tasks again; nothing
// if they are to be tried again now, for which `a` is prepared.
std::optional<run_result::setback> executor::after_abort(attempt& a, aborted&& met)
{
    auto const& first = a.tasks.front();
    // Each has an end of its own to be undone: abandon() runs where only one is in the transaction.
    if (first.second && !a.is_one())
        return run_result::setback{met.why, reaction::each_alone, std::move(met.error), met.member};
    bool const runs_nothing = a.is_recording || first.refused;
    auto const then = react(met.why, {a.tasks.size(), first.tries, runs_nothing, first.lost, a.finishes_first,
                                      first.delivery.returns, a.ran >= long_run});
    if (then == reaction::again || then == reaction::each_alone)
        return run_result::setback{met.why, then, std::move(met.error), met.member};
    // Of what was rolled back, only how this member ended is known: the others run again.
    a.ends.assign(a.tasks.size(), std::nullopt);
    if (then == reaction::finish_first) {
        a.finishes_first = true;
        return {};
    }
    auto const member = a.is_one() ? std::optional<std::size_t>{0} : met.member;
    if (member) a.ends[*member] = end_of(std::move(met));
    if (a.tasks.front().second && settle_rejected(a.tasks.front(), a.ends.front())) return {};
    a.guards_each = then == reaction::guard_each;
    a.is_recording = then == reaction::record;
    return {};
}

void executor::log_left_behind(task const& first)
{
    if (auto const left = store_.left_behind(); !left.empty())
        log_.warning(
            "step.left_in_session",
            {{"step", first.step()->key().guarded_step()}, {"key", first.step()->key().text()}, {"left", left}});
}

// How the member ended that made its transaction fail.
step_result executor::end_of(aborted&& met)
{
    if (met.how) return *std::move(met.how);
    if (met.why == failure::transaction_ended) return unrunnable{"transaction_ended", std::move(met.error)};
    return failed{std::move(met.error)};
}

// Returns nothing if it committed. Otherwise nothing of it remains; after a COMMIT in doubt that is unknown.
std::optional<executor::aborted> executor::try_once(attempt& a)
try {
    a.is_claimed = false;
    a.says_running(running_member::none);
    auto const claimed = claim(a);
    a.is_claimed = true;
    bool const none_claimed =
        std::ranges::all_of(claimed, [](auto const& one) { return one.result == ports::claim_result::in_flight; });
    if (none_claimed && !a.is_one()) {
        // One key that another session has is enough for none of them to be claimed.
        roll_back();
        return aborted{failure::in_flight, "another session has one of the keys, or their table", {}};
    }
    auto const from = clock::now();
    auto broken = run_members(a, claimed);
    a.ran = clock::now() - from;
    if (!a.is_recording && std::ranges::any_of(claimed, must_run)) a.counts.run.observe(a.ran);
    if (broken) return broken;
    commit_steps(a, claimed);
    return {};
}
catch (ports::fault const& met) {
    store_.rollback();
    return aborted{failure_of(met, a.is_claimed), met.what(), {}};
}
catch (std::exception const& error) {
    store_.rollback();
    return aborted{failure::refused, error.what(), {}};
}

std::vector<ports::claim_answer> executor::claim(attempt& a)
{
    SKALD_FAILPOINT_IF(!a.is_recording, "consumer.parsed");
    metrics::timed const counted{a.counts.claim};
    auto const timed = a.trace.part("claim");
    std::vector<ports::claim_item> items;
    items.reserve(a.tasks.size());
    for (auto const& one : a.tasks) {
        items.push_back(one.step()->item());
        if (one.second) items.back().fence = one.second->id.fence;
    }
    ports::claim_options how{.takes_turn = a.how.takes_turn};
    if (!a.is_one()) {
        how.key_wait = key_wait;
        how.lock_wait = a.how.lock_wait;
    }
    else if (a.how.waits_briefly) how.lock_wait = brief_lock_wait;
    auto claimed = store_.begin(items, how);
    for (auto& one : a.tasks)
        if (one.first_tried == core::instant{}) one.first_tried = store_.claimed_at();
    SKALD_FAILPOINT_IF(!a.is_recording && std::ranges::any_of(claimed, must_run), "step.claimed");
    SKALD_FAILPOINT_IF(a.is_recording, "step.reclaimed");
    return claimed;
}

// Runs what must run and has no end yet. Returns what made it fail, if anything did; then nothing of it remains.
std::optional<executor::aborted> executor::run_members(attempt& a, std::span<ports::claim_answer const> claimed)
{
    std::vector<std::size_t> fresh;
    for (std::size_t n = 0; n < a.tasks.size(); ++n)
        if (must_run(claimed[n]) && !a.ends[n]) fresh.push_back(n);

    auto const& first = *a.tasks.front().step();
    bool const as_batch =
        fresh.size() > 1 && !a.guards_each && first.is_forward() && first.hosted->step->does_batches();
    if (as_batch) {
        a.says_running(running_member::all);
        auto broken = run_together(a, fresh);
        a.says_running(running_member::none);
        return broken;
    }
    for (auto const n : fresh) {
        if (a.guards_each) store_.savepoint();
        a.says_running(n);
        auto broken = run_member(a, n, claimed[n].attempts);
        a.says_running(running_member::none);
        if (broken) return broken;
    }
    return {};
}

// Runs all of them in one call, the step's execute_batch().
std::optional<executor::aborted> executor::run_together(attempt& a, std::vector<std::size_t> const& members)
{
    std::vector<std::unique_ptr<detail::step_run>> runs;
    std::deque<step_context> contexts;  // a deque, since `all` refers to its elements; the next one too
    std::deque<std::optional<reject_outcome>> rejections(members.size());
    std::vector<detail::member_run> all;
    std::size_t at = 0;
    try {
        for (auto const n : members) {
            at = n;
            auto& t = a.tasks[n];
            auto const& saga = t.step()->envelope.saga;
            runs.push_back(t.read ? std::move(t.read) : read_for_run(*t.step(), t.data()));
            contexts.emplace_back(store_.unit(), saga.scope, saga.key, t.step()->key().text(), 1,
                                  t.step()->envelope.trace);
            all.push_back({contexts.back(), *runs.back(), rejections[all.size()]});
        }
    }
    catch (data_error const& error) {
        return undo_member(a, at, unrunnable{"malformed", error.what()});
    }
    try {
        auto const timed = a.trace.part("execute_batch");
        if (a.hosted()->step->execute_batch(all) != batch_outcome::all_done) {
            roll_back();
            return aborted{failure::member_ended, "one by one", {}};
        }
        for (std::size_t n = 0; n < members.size(); ++n) {
            if (rejections[n]) a.ends[members[n]] = rejected{rejections[n]->reason};
            else
                a.ends[members[n]] =
                    end_of_first(*a.tasks[members[n]].step(), a.tasks[members[n]].data(), *runs[n], contexts[n]);
        }
        SKALD_FAILPOINT("step.ran");
    }
    catch (...) {
        auto const met = store_.classify_current();
        roll_back();
        // Which member caused it is unknown: they run one by one.
        if (met.kind == ports::fault_kind::broken) return aborted{failure::member_ended, met.what(), {}};
        throw met;
    }
    return {};
}

std::optional<executor::aborted> executor::run_member(attempt& a, std::size_t member, int number)
{
    std::optional<step_result> how;
    try {
        how = run_step(a, member, number);
        SKALD_FAILPOINT("step.ran");
    }
    catch (...) {
        auto const met = store_.classify_current();
        if (met.kind != ports::fault_kind::broken) {
            auto const state = store_.state();
            roll_back();
            if (state == ports::transaction_state::ended)
                return aborted{failure::transaction_ended, ended_by_step, member};
            return aborted{failure_of(met, true), met.what(), member};
        }
        how = failed{met.what()};
    }
    record_result(*a.hosted(), !keeps_writes(*how));
    if (keeps_writes(*how)) {
        a.ends[member] = std::move(how);
        return {};
    }
    return undo_member(a, member, *std::move(how));
}

// Throws what the step throws.
step_result executor::run_step(attempt& a, std::size_t member, int number)
{
    auto& t = a.tasks[member];
    auto const& step = *t.step();
    if (t.second) return run_second(t, a.trace, member, number);
    std::unique_ptr<detail::step_run> run;
    bool const is_apart = t.kept && !step.is_message();
    std::string apart;
    auto const& body = is_apart ? apart : t.data();
    try {
        if (is_apart) apart = store_.read_body(*t.kept);
        run = t.read && !is_apart ? std::move(t.read) : read_for_run(step, body);
    }
    catch (data_error const& error) {
        return unrunnable{"malformed", error.what()};
    }
    catch (ports::body_fault const& error) {
        return unrunnable{error.reason(), error.what()};
    }
    auto const timed = a.trace.run(member);
    if (step.is_message()) return run_message(t, *run, number);
    step_context ctx{store_.unit(), step.envelope.saga.scope, step.envelope.saga.key, step.key().text(),
                     number,        step.envelope.trace};
    std::optional<outcome> ended;
    if (step.is_forward()) ended = run->execute(ctx);
    else run->compensate(ctx);
    if (ended && ended->rejected()) return rejected{ended->rejected()->reason};
    if (ended && ended->snoozed()) return snoozed{ended->snoozed()->wait};
    return end_of_first(step, body, *run, ctx);
}

// A run that did not end in `done`: what it wrote is undone, on its own if each member has a savepoint.
std::optional<executor::aborted> executor::undo_member(attempt& a, std::size_t member, step_result how)
{
    auto const state = store_.state();
    bool const is_decision = std::holds_alternative<rejected>(how) || std::holds_alternative<snoozed>(how);
    // What it decided after a failed statement, it decided without knowing that statement's result.
    if (state == ports::transaction_state::aborted && is_decision) how = failed{went_on_after_error};
    if (a.guards_each && state != ports::transaction_state::lost) {
        store_.undo_to_savepoint();
        a.ends[member] = std::move(how);
        return {};
    }
    roll_back();
    if (state == ports::transaction_state::ended) return aborted{failure::transaction_ended, ended_by_step, member};
    if (state == ports::transaction_state::lost && is_decision)
        return aborted{failure::connection_lost, "the step went on after its connection was lost", member};
    return aborted{failure::member_ended, "", member, std::move(how)};
}

void executor::roll_back()
{
    store_.rollback();
    SKALD_FAILPOINT("step.rolled_back");
}

// Everything that follows from the steps commits with them.
void executor::commit_steps(attempt& a, std::span<ports::claim_answer const> claimed)
{
    circumstances const around{service_, store_.claimed_at(), random_};
    ports::changes changes;
    std::vector<happened> all;
    for (std::size_t n = 0; n < a.tasks.size(); ++n)
        all.push_back(add_consequences(changes, a.tasks[n], claimed[n], std::move(a.ends[n]), around));
    merge_reports(changes);
    bool const is_idle = std::ranges::none_of(claimed, &ports::claim_answer::held) && changes.messages.empty() &&
                         changes.parked.empty() && changes.records.empty() && changes.progress.empty() &&
                         changes.repeated.empty();
    SKALD_FAILPOINT_IF(is_idle, "step.duplicate");
    if (a.is_one()) a.says_running(0);  // its deferred constraints may take long too
    {
        auto const timed = a.trace.part(is_idle ? "rollback" : "commit");
        if (!is_idle && a.finishes_first) store_.finish_step();
        if (is_idle) store_.rollback();
        else commit_and_count(a, changes);
    }
    for (std::size_t n = 0; n < a.tasks.size(); ++n) {
        count_outcome(a.counts, a.tasks[n], claimed[n], all[n]);
        a.trace.ended(n, all[n]);
        log_outcome(a.tasks[n], all[n]);
    }
}

void executor::commit_and_count(attempt& a, ports::changes& changes)
{
    {
        metrics::timed const counted{a.counts.commit};
        commit(changes);
    }
    a.counts.batch.observe(static_cast<double>(a.tasks.size()));
}

void executor::commit(ports::changes& changes)
{
    SKALD_FAILPOINT("step.before_commit");
    bool const starts = !changes.started.empty();
    auto const committed = [] {  // before anything that was committed is dispatched
        SKALD_FAILPOINT("step.committed");
    };
    out_.commit(store_, changes, committed);
    if (starts && on_started_) on_started_();
}

}  // namespace skald::runtime
