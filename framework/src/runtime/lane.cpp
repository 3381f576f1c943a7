#include "runtime/lane.hpp"

#include "core/failpoint.hpp"

#include <algorithm>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto take_wait = 500ms;

// A delivery that even the framework's own writes fail for, again and again, is kept aside
// instead of blocking the lane.
constexpr int tries_max = 5;

}  // namespace

lane::lane(executor executor, ports::subscription& deliveries, std::size_t batch_max, step_lanes& limits,
           stop_flag const& stop, core::logger& log, std::mt19937_64 random)
    : executor_{std::move(executor)}, deliveries_{deliveries},
      batch_max_{batch_max}, limits_{limits}, stop_{stop}, log_{log}, random_{random}
{}

void lane::run()
{
    while (!stop_.stopped()) {
        auto now = limits_.enter(deliveries_.take(batch_max_, take_wait));
        for (; !now.empty() && !stop_.stopped(); now = limits_.leave(now, batch_max_)) settle_all(now);
    }
}

void lane::settle_all(std::vector<ports::delivery> const& all)
{
    auto const settled = all.size() > 1 ? try_to_settle_together(all) : std::vector<bool>(all.size());
    for (std::size_t n = 0; n < all.size(); ++n)
        if (!settled[n]) settle(all[n]);
}

// None where it is not known: each alone then finds out.
std::vector<bool> lane::try_to_settle_together(std::vector<ports::delivery> const& all)
try {
    SKALD_MUTANT("ack_before_commit", for (auto const& d : all) deliveries_.ack(d.tag));
    auto settled = executor_.settle_batch(all);
    for (std::size_t n = 0; n < all.size(); ++n)
        if (settled[n]) deliveries_.ack(all[n].tag);  // after COMMIT, and only then
    SKALD_FAILPOINT_IF(std::ranges::find(settled, true) != settled.end(), "batch.acked");
    return settled;
}
catch (std::exception const& error) {
    SKALD_MUTANT("failed_batch_acked", for (auto const& d : all) deliveries_.ack(d.tag));
    SKALD_MUTANT("failed_batch_acked", return std::vector(all.size(), true));
    log_.warning("batch.not_settled", {{"deliveries", all.size()}, {"error", error.what()}});
    return std::vector<bool>(all.size());
}

void lane::settle(ports::delivery const& d)
{
    for (int tries = 1; !try_to_settle(d, tries); ++tries)
        if (stop_.wait(backoff_.wait(tries, random_))) return;  // unacked: the broker delivers it again
}

bool lane::try_to_settle(ports::delivery const& d, int tries)
try {
    SKALD_MUTANT("ack_before_commit", deliveries_.ack(d.tag));
    executor_.settle(d);
    deliveries_.ack(d.tag);  // after COMMIT, and only then
    SKALD_FAILPOINT("step.acked");
    return true;
}
catch (ports::fault const& met) {
    SKALD_MUTANT("retry_in_broker_only", return deliveries_.requeue(d.tag), true);
    bool const waiting_helps =
        met.kind != ports::fault_kind::broken && met.kind != ports::fault_kind::transaction_ended;
    return keep_aside(d, waiting_helps ? 0 : tries, met.what());
}
catch (std::exception const& error) {
    return keep_aside(d, tries, error.what());
}

bool lane::keep_aside(ports::delivery const& d, int tries, std::string const& why)
try {
    log_.warning("delivery.not_settled", {{"id", d.message.id}, {"error", why}});
    if (tries < tries_max) return false;
    executor_.park(d, "unsettled", why);
    deliveries_.ack(d.tag);
    return true;
}
catch (std::exception const&) {
    return false;  // the database is away now; the delivery is still unacked
}

}  // namespace skald::runtime
