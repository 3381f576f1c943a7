// What is counted of large bodies, which are kept apart from what refers to them.
#pragma once

#include "metrics/counter.hpp"

#include <array>
#include <string_view>

namespace skald::metrics {

enum class body_read { whole, missing, damaged };

/// In the order of body_read.
inline constexpr std::array<std::string_view, 3> body_read_names{"whole", "missing", "damaged"};

/// Threads: any.
struct body_metrics
{
    counter kept;
    counter kept_bytes;
    counters_by<body_read, body_read_names.size()> reads;
    counter read_bytes;
    counter removed;
};

}  // namespace skald::metrics
