// How much of a step may run together: what a group's end means for its step's limit, and who is told.
#include "runtime/dispatcher.hpp"

#include <utility>

namespace skald::runtime {

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

}  // namespace skald::runtime
