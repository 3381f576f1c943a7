#include "runtime/lane.hpp"

#include "core/failpoint.hpp"

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// One delivery for one transaction; many for one come with execute in batches.
constexpr std::size_t batch_max = 1;
constexpr auto take_wait = 500ms;

// A delivery that even the framework's own writes fail for, again and again, is kept aside instead of blocking the lane.
constexpr int tries_max = 5;

}  // namespace

lane::lane(executor executor, ports::subscription& deliveries, stop_flag const& stop, core::logger& log,
           std::mt19937_64 random)
    : executor_{std::move(executor)}, deliveries_{deliveries}, stop_{stop}, log_{log}, random_{random}
{}

void lane::run()
{
    while (!stop_.stopped())
        for (auto const& d : deliveries_.take(batch_max, take_wait)) settle(d);
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
    bool const waiting_helps = met.kind != ports::fault_kind::broken && met.kind != ports::fault_kind::transaction_ended;
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
