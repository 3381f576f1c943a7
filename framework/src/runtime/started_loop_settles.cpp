// The threads that record the ends of started steps.
#include "core/backoff.hpp"
#include "core/failpoint.hpp"
#include "runtime/started_loop.hpp"

#include <algorithm>
#include <random>
#include <tuple>
#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// Ends of waits in one transaction: with two threads for them, both have something to do.
constexpr std::size_t settled_together_max = 32;

}  // namespace

void started_loop::run_settles(executor& executor)
{
    std::unique_lock lock{mutex_};
    while (true) {
        changed_.wait(lock, [this] { return !to_settle_.empty() || keeper_has_ended_; });
        if (to_settle_.empty()) return;
        auto all = take_ended();
        lock.unlock();
        try {
            if (all.size() == 1 || !settle_together(all, executor))
                for (auto& [one, end] : all) {
                    one->step.delivery.second = std::move(end);
                    settle(one, executor);
                }
        }
        catch (std::exception const& error) {
            // What is not recorded comes due again when the lease ends.
            log_.error("call.not_recorded",
                       {{"key", all.front().first->step.delivery.step()->key().text()}, {"error", error.what()}});
        }
        for (auto const& [one, end] : all) forget(one);
        lock.lock();
    }
}

// The next one; and of a wait, what has ended of the same step with it. Under the lock.
std::vector<started_loop::ended_step> started_loop::take_ended()
{
    auto const shares = [](ended_step const& one) {
        return !one.first->step.work->is_call() && std::holds_alternative<second_transaction::answer>(one.second.end);
    };
    std::vector<ended_step> all;
    all.push_back(std::move(to_settle_.front()));
    to_settle_.pop_front();
    auto const& first = all.front().first->step.hosted();
    auto const most = shares(all.front()) ? std::min(first.options.batch, settled_together_max) : 1;
    for (auto it = to_settle_.begin(); it != to_settle_.end() && all.size() < most;) {
        if (&it->first->step.hosted() != &first || !shares(*it)) {
            ++it;
            continue;
        }
        all.push_back(std::move(*it));
        it = to_settle_.erase(it);
    }
    return all;
}

// In one transaction; false if that failed, and then nothing of it remains.
bool started_loop::settle_together(std::vector<ended_step>& all, executor& executor)
{
    // As in any batch: two transactions lock in the same order.
    std::ranges::sort(all, {}, [](ended_step const& one) {
        auto const& saga = one.first->step.envelope().saga;
        return std::tie(saga.key, saga.scope);
    });
    std::vector<task> tasks;
    for (auto const& [one, end] : all) {
        // The keeper reads the step's own delivery meanwhile.
        tasks.push_back(std::move(recognize(one->step.row, service_, steps_).value().delivery));
        tasks.back().second = end;
    }
    bool const processed = executor.run(tasks).processed();
    SKALD_FAILPOINT_IF(processed, "call.settled");
    return processed;
}

// Until it is recorded, or is somebody else's: then what is recorded is theirs.
void started_loop::settle(std::shared_ptr<held_step> const& one, executor& executor)
{
    auto& task = one->step.delivery;
    core::backoff const backoff{50ms, 2'000ms};
    std::mt19937_64 random{std::random_device{}()};
    for (int failures = 1;; ++failures) {
        auto const result = executor.run({&task, 1});
        if (result.processed()) break;
        auto const& met = *result.not_processed;
        task.put_back(met.why, met.then, true);
        log_.warning("call.not_recorded", {{"key", task.step()->key().text()}, {"error", met.error}});
        std::unique_lock lock{mutex_};
        changed_.wait_for(lock, backoff.wait(failures, random), [this] { return is_stopped_; });
        if (one->lost || is_stopped_) break;
    }
    SKALD_FAILPOINT("call.settled");
}

}  // namespace skald::runtime
