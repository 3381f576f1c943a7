// Spans in the JSON of OTLP/HTTP: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
#pragma once

#include "tracing/span.hpp"

#include <span>
#include <string>
#include <string_view>

namespace skald::tracing {

/// An opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest. Text that is not UTF-8 is made so.
std::string export_request(std::string_view service, std::span<span const> spans);

}  // namespace skald::tracing
