// How much of a step may run together: what a group's end means for its step's limit, which of them take long, and who
// is told.
#include "runtime/dispatcher.hpp"

#include <algorithm>
#include <utility>

namespace skald::runtime {
namespace {

constexpr std::size_t slow_known_max = 1'000;

}  // namespace

std::optional<limit_change> dispatcher::change_limit(step& of, run_result const& result, std::size_t members,
                                                     clock::time_point now)
{
    if (result.processed()) return of.limit.committed(members, result.ran, now);
    auto const why = result.not_processed->why;
    // A lock that a single delivery waits for in vain is no reason to run fewer of those that do not need it.
    bool const is_ours = why == failure::lock_timeout && members > 1 && now >= of.blocked_until;
    if (why != failure::contended && !is_ours) return {};
    of.shown.conflicts.add();
    return of.limit.conflicted(now);
}

void dispatcher::log_change(step const& of, std::string_view why)
{
    log_.debug("step.limit_changed", {{"step", of.name},
                                      {"lanes", std::uint64_t{of.limit.lanes()}},
                                      {"batch", std::uint64_t{of.limit.batch()}},
                                      {"takes_turns", of.limit.takes_turns() ? "yes" : "no"},
                                      {"reason", why}});
}

ports::contention dispatcher::report(step& of, std::string_view why, clock::time_point now)
{
    of.reported_at = now;
    auto const& limit = of.limit;
    auto const before = std::exchange(of.conflicts_reported, limit.conflicts());
    return {of.name, std::string{why}, limit.lanes(), limit.batch(), limit.takes_turns(), limit.conflicts() - before};
}

// The hanging step's transaction has been silent for so long that the server should have ended it: then what it had
// claimed for the others is free. If the server has not, they are in flight until it does. Should the step return after
// all, an ack of what was sent back has no effect.
void dispatcher::look_after_slow(clock::time_point now)
{
    for (auto const& one : running_.running_long(now)) {
        if (one.is_one && !slow_.contains(one.key)) {
            if (slow_.size() >= slow_known_max) slow_.clear();
            slow_.insert(one.key);
        }
        auto const seconds = std::int64_t{one.since.count()};
        if (!one.hangs) {
            log_.warning("step.slow", {{"step", one.step}, {"key", one.key}, {"seconds", seconds}});
            continue;
        }
        for (auto const& tag : one.released) deliveries_.requeue(tag);
        auto& of = limits_.find(one.step)->second;
        for (auto const& serial : one.serials) of.serial.erase(of.serial.find(serial));
        log_.warning("step.hanging", {{"step", one.step},
                                      {"key", one.key},
                                      {"seconds", seconds},
                                      {"released", std::uint64_t{one.released.size()}}});
    }
}

void dispatcher::check_for_slow()
{
    std::lock_guard const lock{mutex_};
    look_after_slow(clock::now());
}

bool dispatcher::is_slow(task const& t) const
{
    return slow_.contains(t.delivery.message.id);
}

std::size_t dispatcher::slow_max() const
{
    return std::max<std::size_t>(options_.lanes / 2, 1);
}

}  // namespace skald::runtime
