#include "runtime/held_step.hpp"

#include "core/failpoint.hpp"
#include "ports/fault.hpp"

#include <thread>
#include <utility>

namespace skald::runtime {

using namespace std::chrono_literals;

held_step::held_step(started_step s, std::string dependency, renewer renews)
    : step{std::move(s)}, dependency_name{std::move(dependency)}, taken_at{clock::now()},
      lease_ends{taken_at + step.row.lease}, last_sign{taken_at}, renews_{std::move(renews)}
{}

void held_step::heartbeat(std::optional<nlohmann::json> const& checkpoint)
{
    throw_if_stopped();
    last_sign = clock::now();
    // Without something to keep, the loop's own renewal is enough.
    if (!checkpoint) return;
    ports::started_steps::held const now{step.row.id, checkpoint->dump()};
    while (true) {
        try {
            auto const asked = clock::now();
            take_renewal(renews_(now), asked);
            break;
        }
        catch (ports::fault const&) {
            throw_if_stopped();
        }
        std::this_thread::sleep_for(100ms);  // the database is away; the lease may outlast that
    }
    throw_if_stopped();
    SKALD_FAILPOINT("call.heartbeat");
}

bool held_step::is_stopped() const noexcept
{
    return lost || stops || clock::now() >= lease_ends.load();
}

void held_step::throw_if_stopped() const
{
    if (lost || clock::now() >= lease_ends.load())
        throw call_stopped{"somebody else may have this call now: its lease has ended"};
    if (stops) throw call_stopped{"its saga was cancelled or paused, is past its deadline, or this process stops"};
}

bool held_step::is_past_deadline(clock::time_point now) const
{
    auto const deadline = step.envelope().deadline();
    return deadline && step.row.at + (now - taken_at) >= *deadline;
}

void held_step::take_renewal(ports::started_steps::renewal const& met, clock::time_point asked)
{
    if (!met.is_ours) lost = true;
    else lease_ends = asked + step.row.lease;
    if (met.command == "cancel" || met.command == "pause" || met.command == "close") stops = true;
}

}  // namespace skald::runtime
