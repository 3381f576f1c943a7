// Where a service can die, or lose its database, while it processes a delivery, makes a call, or sends what it has
// committed.
#pragma once

#include <array>
#include <string_view>

namespace skald::testing {

/// Where harness::crash_at() strikes.
enum class crash_point {
    before_claim,   // the delivery was taken, and nothing has been done
    after_claim,    // the step's key is claimed, in an open transaction
    after_step,     // the step's code has run, in that transaction
    before_commit,  // the step's record and messages are about to be written and committed with it
    after_commit,   // done, but the delivery is not acked: it is delivered again

    // The service survives; it lost its connection while committing and can't know whether that took effect.
    commit_lost,  // it did not
    answer_lost,  // it did

    before_publish,  // the relay has taken a message out of the outbox
    before_confirm,  // the broker has it, but the relay does not know
    before_delete,   // the broker has confirmed it, and the row is still there
    after_delete,    // everything is done

    // Of an external step. The points of its second transaction are those above, of `charge.settle`.
    before_call,  // it was taken to be called, and has not been called
    after_call,   // the call has returned, and what it returned is not recorded
    lease_lost,   // likewise; the service survives, but its lease is over, and another process of it goes on first
};

/// A point as a schedule of the proof names it.
struct crash_point_name
{
    crash_point point;      // in the order of the enumeration
    std::string_view name;  // as written in a schedule
};

/// All of them.
inline constexpr std::array crash_points{
    crash_point_name{crash_point::before_claim, "crash before the claim"},
    crash_point_name{crash_point::after_claim, "crash after the claim"},
    crash_point_name{crash_point::after_step, "crash after the step"},
    crash_point_name{crash_point::before_commit, "crash before COMMIT"},
    crash_point_name{crash_point::after_commit, "crash after COMMIT and before the ack"},
    crash_point_name{crash_point::commit_lost, "lose the COMMIT"},
    crash_point_name{crash_point::answer_lost, "lose the answer to the COMMIT"},
    crash_point_name{crash_point::before_publish, "crash before publishing"},
    crash_point_name{crash_point::before_confirm, "crash before the confirm"},
    crash_point_name{crash_point::before_delete, "crash after the confirm and before deleting"},
    crash_point_name{crash_point::after_delete, "crash after deleting"},
    crash_point_name{crash_point::before_call, "crash before the call"},
    crash_point_name{crash_point::after_call, "crash after the call"},
    crash_point_name{crash_point::lease_lost, "lose the lease of the call"},
};

/// Its name in a schedule.
constexpr std::string_view name_of(crash_point point)
{
    return crash_points[static_cast<std::size_t>(point)].name;
}

}  // namespace skald::testing
