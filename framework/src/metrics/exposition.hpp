// What GET /metrics shows: families of samples, in Prometheus' text format. Built anew for each request.
#pragma once

#include "metrics/counter.hpp"
#include "metrics/histogram.hpp"

#include <prometheus/metric_family.h>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::metrics {

enum class kind { counter, gauge, histogram };

/// One metric. docs/observability.md has a table of all; a test compares the two.
struct description
{
    std::string_view name;
    kind what;
    std::string_view help;
};

using label = std::pair<std::string_view, std::string_view>;

/// Threads: one.
class exposition
{
public:
    /// Every sample gets the label `service`. All of `families` are shown, also those without a sample: what is unknown
    /// has none.
    exposition(std::string service, std::span<description const> families);

    void add(description const& of, std::initializer_list<label> labels, double value);
    void add(description const& of, std::initializer_list<label> labels, distribution const& values);
    void add(description const& of, std::initializer_list<label> labels, counter const& c)
    {
        add(of, labels, static_cast<double>(c.value()));
    }

    std::string text() const;

private:
    prometheus::ClientMetric& sample(description const& of, std::initializer_list<label> labels);

    std::string service_;
    std::vector<prometheus::MetricFamily> families_;
};

}  // namespace skald::metrics
