// What each struct of counters adds to the page.
#pragma once

#include "core/breaker.hpp"
#include "metrics/body_metrics.hpp"
#include "metrics/database_figures.hpp"
#include "metrics/exposition.hpp"
#include "metrics/front_metrics.hpp"
#include "metrics/lane_metrics.hpp"
#include "metrics/publish_metrics.hpp"
#include "metrics/route_metrics.hpp"
#include "metrics/step_metrics.hpp"

#include <string_view>

namespace skald::metrics {

void write(exposition& to, std::string_view definition, std::string_view step, step_metrics const& m);
void write(exposition& to, std::string_view step, limit_metrics const& m);

/// Of an external step.
void write_calls(exposition& to, std::string_view definition, std::string_view step, bool is_forward,
                 step_metrics const& m);

/// `requests`: COMMITs in doubt of the entry, which count together with those of the lanes.
void write(exposition& to, lane_metrics const& m, doubt_metrics const& requests);

void write_dispatch(exposition& to, publish_metrics const& m);
void write_relay(exposition& to, publish_metrics const& m);
void write(exposition& to, route_metrics const& m);
void write(exposition& to, front_metrics const& m);
void write(exposition& to, body_metrics const& m);

/// Of a dependency that has a name.
void write(exposition& to, std::string_view dependency, core::breaker_status const& s);

void write(exposition& to, database_figures::seen const& m);

}  // namespace skald::metrics
