// Stands between the deliveries of a process and its lanes: what has arrived waits here by step, unacked, and each lane
// gets what may run together now.
//
// A delivery that came back unacked may be what killed its process. These go last, alone, mostly the one that came back
// less often first, and from the second return on one at a time: so what is queued after a deadly message gets past it,
// and is not parked with it.
//
// A group consists of deliveries of one step in one direction, so that a step's limit applies to its own transactions
// only. What could not be processed comes back here, and is handed out again, alone or later.
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "ports/transport.hpp"
#include "runtime/delivery_recording.hpp"
#include "runtime/executor.hpp"
#include "runtime/registry.hpp"
#include "runtime/running_groups.hpp"
#include "runtime/step_limit.hpp"
#include "runtime/task.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace skald::runtime {

struct dispatcher_options
{
    std::size_t lanes{4};
    std::size_t batch_max{32};
    std::size_t batch_first{1};    // deliveries of a step in its first transaction
    core::key_ring const* keys{};  // to check signatures with; null: they are not checked
    bool must_be_signed{};         // false: what is not signed is only logged
    /// After this time a step that has not returned is logged. Such deliveries, when they are tried again here, run in
    /// half of the lanes: what waits for something that does not come must not stop the rest each time.
    std::chrono::milliseconds slow_after{long_run};
    /// After this time the rest of its batch runs elsewhere. Longer than a transaction may be silent, so that the
    /// server has ended it by then.
    std::chrono::milliseconds hang_after{40'000};
    delivery_recording* recording{};  // null: none
};

/// One for all lanes of a process. Bounded by the prefetch, as everything unacked is. Threads: any.
class dispatcher
{
    struct step;

public:
    using clock = std::chrono::steady_clock;

    dispatcher(dispatcher_options options, std::string service, registry const& steps, ports::subscription& deliveries,
               core::logger& log, std::mt19937_64 random);

    class group
    {
    public:
        std::vector<task> tasks;
        run_options how;

    private:
        friend class dispatcher;
        step* of{};
        running_groups::group* running{};
        bool is_locked_out{};
        bool is_slow{};  // was known to be when it began
    };

    /// What may run now; empty if there is nothing within `wait`.
    group take(std::chrono::milliseconds wait);

    /// The lane is done with the group. Whatever is still in it is tried again. Returns the limits that have changed,
    /// for operators.
    std::vector<ports::contention> finish(group&& ran, run_result const& result);

    /// Logs steps that do not return, and sends back to the broker what waits for them in the same transaction. take()
    /// does so too; this is for when all lanes are held up.
    void check_for_slow();

private:
    /// A step, forward and compensation: both write the same rows.
    struct step
    {
        step(std::string n, limit_bounds bounds, metrics::limit_metrics& counts)
            : name{std::move(n)}, limit{bounds}, shown{counts}
        {
            show();
        }

        void show()
        {
            shown.lanes.set(static_cast<double>(limit.lanes()));
            shown.batch.set(static_cast<double>(limit.batch()));
            shown.takes_turns.set(limit.takes_turns() ? 1 : 0);
        }

        std::string name;
        step_limit limit;
        metrics::limit_metrics& shown;
        std::size_t running{};
        std::multiset<std::string, std::less<>> serial;  // the values of the tasks that run now
        std::int64_t conflicts_reported{};
        clock::time_point reported_at{};

        // A lock that another session does not release must not stop deliveries that do not need it. Those that have
        // met it run one at a time, with a pause after each failure as long as its wait: half of one lane at most.
        bool locked_out_runs{};
        clock::time_point locked_out_from{};
        clock::time_point blocked_until{};  // until then the others do not wait long for a lock either
        clock::time_point blocked_reported_at{};
    };

    struct queue
    {
        step* of{};  // null for what belongs to no step
        bool came_back{};
        std::size_t batch_max{1};
        std::deque<task> waiting;
    };

    using queue_key = std::tuple<void const*, bool, bool, std::string>;

    std::vector<task> read(std::vector<ports::delivery>&& arrived);
    void log_distrust(core::message const& m);
    void sort(std::vector<task>&& arrived);
    int suspicion_of(task const& t);
    void drop_stale(std::uint64_t generation);
    void put(task&& t, bool at_front);
    queue& queue_of(task const& t);
    step& step_of(task const& t);
    void put_back_due(clock::time_point now);
    void look_after_slow(clock::time_point now);
    bool is_slow(task const& t) const;
    std::size_t slow_max() const;
    group pick();
    queue* next_queue();
    bool may_run(queue const& q, task const& t) const;
    bool any_may_run(queue const& q) const;
    void end_locked_out(group& ran, run_result const& result, clock::time_point now);
    std::optional<limit_change> change_limit(step& of, run_result const& result, std::size_t members,
                                             clock::time_point now);
    void log_change(step const& of, std::string_view why);
    ports::contention report(step& of, std::string_view why, clock::time_point now);
    void defer(task&& t, run_result::setback const& met, clock::time_point now, bool was_one);
    std::chrono::milliseconds until_next(std::chrono::milliseconds wait) const;

    dispatcher_options const options_;
    std::string const service_;
    registry const& steps_;
    ports::subscription& deliveries_;
    core::logger& log_;
    std::mt19937_64 random_;

    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_reading_{};  // one lane waits for deliveries, the others wait for that lane
    std::map<std::string, step, std::less<>> limits_;
    std::map<queue_key, queue> queues_;
    std::multimap<clock::time_point, task> later_;
    running_groups running_{options_.slow_after, options_.hang_after};
    std::set<std::string, std::less<>> slow_;  // keys of deliveries that took long here
    std::size_t slow_running_{};               // groups of one of them, known before it began
    std::size_t repeated_running_{};           // groups whose first delivery came back more than once
    std::uint64_t generation_{};
    std::uint64_t arrived_{};
    std::uint64_t distrusted_{};  // not logged yet
    clock::time_point log_distrust_from_{};
};

}  // namespace skald::runtime
