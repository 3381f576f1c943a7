#include "metrics/exposition.hpp"

#include "core/assert.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>

namespace skald::metrics {
namespace {

prometheus::MetricType type_of(kind what)
{
    switch (what) {
    case kind::counter: return prometheus::MetricType::Counter;
    case kind::gauge: return prometheus::MetricType::Gauge;
    case kind::histogram: return prometheus::MetricType::Histogram;
    }
    return prometheus::MetricType::Untyped;
}

}  // namespace

exposition::exposition(std::string service, std::span<description const> families) : service_{std::move(service)}
{
    for (auto const& one : families)
        families_.push_back({std::string{one.name}, std::string{one.help}, type_of(one.what), {}});
}

prometheus::ClientMetric& exposition::sample(description const& of, std::initializer_list<label> labels)
{
    auto const found = std::ranges::find(families_, of.name, &prometheus::MetricFamily::name);
    SKALD_ASSERT(found != families_.end());
    auto& made = found->metric.emplace_back();
    made.label.push_back({"service", service_});
    for (auto const& [name, value] : labels) made.label.push_back({std::string{name}, std::string{value}});
    return made;
}

void exposition::add(description const& of, std::initializer_list<label> labels, double value)
{
    auto& made = sample(of, labels);
    if (of.what == kind::counter) made.counter.value = value;
    else made.gauge.value = value;
}

void exposition::add(description const& of, std::initializer_list<label> labels, distribution const& values)
{
    SKALD_ASSERT(values.counts.size() == values.bounds.size() + 1);
    auto& made = sample(of, labels).histogram;
    for (std::size_t n = 0; n < values.bounds.size(); ++n) {
        made.sample_count += values.counts[n];
        made.bucket.push_back({made.sample_count, values.bounds[n]});
    }
    made.sample_count += values.counts.back();
    made.sample_sum = values.sum;
}

std::string exposition::text() const
{
    return prometheus::TextSerializer{}.Serialize(families_);
}

}  // namespace skald::metrics
