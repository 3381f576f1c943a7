// A step's delivery on its way through the executor. For the executor's own files.
#pragma once

#include "runtime/executor.hpp"

#include <chrono>

namespace skald::runtime {

// Another transaction has the same key and did not end while the claim waited for it, or the saga is paused.
inline constexpr std::chrono::seconds in_flight_wait{1};
inline constexpr std::chrono::seconds paused_wait{5};

/// A delivery that was read as a step's, with everything that is needed to run and settle it.
struct executor::step_delivery
{
    ports::delivery const* delivery;
    core::envelope envelope;
    registered_step const* hosted{};
    core::fingerprint fingerprint;
    core::instant first_tried{};  // by the server's clock

    core::derived_key key() const { return envelope.key(); }

    ports::claim_item item() const
    {
        return {envelope.saga,      key().guarded_step(), fingerprint, envelope.turn(), envelope.itinerary.past_pivot(),
                envelope.deadline()};
    }
};

}  // namespace skald::runtime
