// Where a piece of work belongs in a distributed trace.
#pragma once

#include <string>

namespace skald {

/// The two headers of W3C Trace Context (https://www.w3.org/TR/trace-context/), as text. Pass them on to whatever a
/// step or a handler calls, so that its work appears in the same trace.
struct trace_context
{
    std::string traceparent{};  // "00-<trace id>-<span id>-<flags>"; empty: there is no trace
    std::string tracestate{};   // vendors' own; empty without a traceparent
};

}  // namespace skald
