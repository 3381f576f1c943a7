// What is counted of the requests to one route.
#pragma once

#include "metrics/counter.hpp"
#include "metrics/histogram.hpp"

#include <array>
#include <string>
#include <utility>

namespace skald::metrics {

inline constexpr int status_first = 100;
inline constexpr int status_last = 599;

/// Threads: any.
struct route_metrics
{
    explicit route_metrics(std::string of) : name{std::move(of)} {}

    std::string name;  // "POST /orders"; never a path as sent
    std::array<counter, status_last - status_first + 1> statuses;
    counter replayed;
    time_histogram seconds;  // from the complete request to its response

    void responded(int status)
    {
        if (status >= status_first && status <= status_last)
            statuses.at(static_cast<std::size_t>(status - status_first)).add();
    }
};

}  // namespace skald::metrics
