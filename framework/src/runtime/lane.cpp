#include "runtime/lane.hpp"

#include "core/failpoint.hpp"

#include <span>
#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto take_wait = 500ms;

// A delivery for which even the framework's own writes keep failing is parked instead of being tried indefinitely.
constexpr int tries_max = 5;

// Whether a failure is worth a line: contention and locks among several are part of the day, and what keeps a delivery
// from being processed is met many times: it is logged the first time, the second, the fourth ...
bool is_news(failure why, std::span<task const> tasks)
{
    bool const is_one = tasks.size() == 1;
    if (why == failure::contended) return is_one;
    if ((why == failure::lock_timeout || why == failure::in_flight) && !is_one) return false;
    auto const tries = static_cast<unsigned>(tasks.front().tries);
    return (tries & (tries + 1)) == 0;
}

}  // namespace

lane::lane(executor executor, dispatcher& work, ports::subscription& deliveries, stop_flag const& stop,
           core::logger& log)
    : executor_{std::move(executor)}, work_{work}, deliveries_{deliveries}, stop_{stop}, log_{log}
{}

void lane::run()
{
    while (!stop_.stopped()) {
        auto group = work_.take(take_wait);
        if (group.tasks.empty()) continue;
        auto result = executor_.run(group.tasks, group.how);
        if (result.processed()) {
            for (auto const& t : group.tasks) deliveries_.ack(t.delivery.tag);  // after COMMIT, and only then
            SKALD_FAILPOINT("step.acked");
        }
        else {
            auto const& met = *result.not_processed;
            auto const& first = group.tasks.front();
            if (is_news(met.why, group.tasks))
                log_.warning("delivery.not_processed", {{"id", first.delivery.message.id},
                                                        {"deliveries", std::uint64_t{group.tasks.size()}},
                                                        {"error", met.error}});
            bool const never_works =
                met.why == failure::refused && group.tasks.size() == 1 && first.tries + 1 >= tries_max;
            if (never_works && park_refused(first, met.error)) result.not_processed.reset();
        }
        auto const changed = work_.finish(std::move(group), result);
        if (!changed.empty()) executor_.record_contention(changed);
    }
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
