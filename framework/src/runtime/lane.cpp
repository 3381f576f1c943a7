#include "runtime/lane.hpp"

#include "core/failpoint.hpp"

#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto take_wait = 500ms;

// A delivery for which even the framework's own writes keep failing is parked instead of being tried indefinitely.
constexpr int tries_max = 5;

}  // namespace

lane::lane(executor executor, dispatcher& work, ports::subscription& deliveries, stop_flag const& stop,
           core::logger& log)
    : executor_{std::move(executor)}, work_{work}, deliveries_{deliveries}, stop_{stop}, log_{log}
{}

void lane::run()
{
    while (!stop_.stopped())
        if (auto next = work_.take(take_wait); !next.tasks.empty()) process(std::move(next));
}

void lane::process(dispatcher::group&& group)
{
    auto result = executor_.run(group.tasks, group.how);
    if (result.processed()) {
        for (auto const& t : group.tasks) deliveries_.ack(t.delivery.tag);  // after COMMIT, and only then
        SKALD_FAILPOINT("step.acked");
    }
    else {
        auto const& met = *result.not_processed;
        bool const is_contention = met.why == failure::contended || met.why == failure::lock_timeout;
        // A lock that is not released is met many times: the first time, the second, the fourth ...
        auto const tries = static_cast<unsigned>(group.tasks.front().tries);
        bool const is_news = met.why != failure::lock_timeout || (tries & (tries + 1)) == 0;
        if (is_news && (!is_contention || group.tasks.size() == 1))
            log_.warning("delivery.not_processed", {{"id", group.tasks.front().delivery.message.id},
                                                    {"deliveries", std::uint64_t{group.tasks.size()}},
                                                    {"error", met.error}});
        if (met.why == failure::refused && group.tasks.size() == 1 && group.tasks.front().tries + 1 >= tries_max &&
            park_refused(group.tasks.front(), met.error))
            result.not_processed.reset();
    }
    auto const changed = work_.finish(std::move(group), result);
    if (!changed.empty()) executor_.record_contention(changed);
}

bool lane::park_refused(task const& t, std::string const& why)
try {
    executor_.park_refused(t, why);
    deliveries_.ack(t.delivery.tag);
    return true;
}
catch (std::exception const&) {
    return false;  // the database is unavailable now; the delivery is still unacked
}

}  // namespace skald::runtime
