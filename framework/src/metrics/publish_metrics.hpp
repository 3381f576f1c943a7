// What is counted of one publish loop: that of memory, or the relay.
#pragma once

#include "metrics/counter.hpp"
#include "metrics/histogram.hpp"

#include <array>
#include <string_view>

namespace skald::metrics {

/// The names of ports::publish_status, in its order (a test compares them).
inline constexpr std::array<std::string_view, 6> publish_names{"confirmed", "returned", "nacked",
                                                               "refused",   "barred",   "unresolved"};

/// Threads: any.
struct publish_metrics
{
    std::array<counter, publish_names.size()> messages;  // by what the broker answered
    time_histogram waited;                               // from when a message could be sent until it was
    time_histogram confirm;                              // from when it was sent until the answer
    counter failures;                                    // passes that broke off, because of the database or the broker
    gauge available;                                     // 1 while it can send
};

}  // namespace skald::metrics
