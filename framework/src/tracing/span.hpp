// One finished piece of work in a trace, as OpenTelemetry describes it.
#pragma once

#include "core/span_context.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace skald::tracing {

/// The numbers are those of opentelemetry.proto.trace.v1.Span.SpanKind.
enum class span_kind { internal = 1, server = 2, client = 3, producer = 4, consumer = 5 };

struct attribute
{
    std::string_view name;  // a constant
    std::variant<std::string, std::int64_t> value;
};

struct span
{
    core::span_context self;
    std::optional<std::array<std::uint8_t, 8>> parent{};  // in the same trace
    std::string tracestate{};
    std::string name;
    span_kind kind{span_kind::internal};
    std::int64_t began_ns{};  // since 1970
    std::int64_t ended_ns{};
    std::vector<attribute> attributes{};
    std::vector<core::span_context> links{};  // what it also results from: a batch has many causes
    std::string error{};                      // empty: it succeeded, or nobody can say
};

}  // namespace skald::tracing
