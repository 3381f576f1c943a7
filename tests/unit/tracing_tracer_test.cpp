// Spans from their beginning to the exporter: whose word decides, what is dropped, and what costs nothing.
#include <doctest/doctest.h>

#include "tracing/tracer.hpp"

#include <nlohmann/json.hpp>

#include <set>
#include <string>

#include "tracing/otlp_json.hpp"

using namespace skald;
using namespace skald::tracing;
using namespace std::chrono_literals;

namespace {

std::string const sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
std::string const unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

std::vector<span> all_of(tracer& t)
{
    return t.take(1'000, 0ms);
}

}  // namespace

TEST_CASE("sampling is the parent's word, whatever the ratio")
{
    tracer none{{.ratio = 0.0}}, every{{.ratio = 1.0}};
    trace_context cause{sampled, "a=b"};
    CHECK(begin_span(&none, cause, "x", span_kind::consumer));
    cause = {unsampled, "a=b"};
    CHECK_FALSE(begin_span(&every, cause, "x", span_kind::consumer));
    CHECK(cause.traceparent == unsampled);
    CHECK(cause.tracestate == "a=b");
}

TEST_CASE("without a parent the ratio decides, once for the whole trace")
{
    tracer none{{.ratio = 0.0}}, every{{.ratio = 1.0}};
    trace_context cause;
    CHECK_FALSE(begin_span(&none, cause, "first", span_kind::server));
    auto const decided = cause.traceparent;
    REQUIRE(core::parse_traceparent(decided));
    CHECK_FALSE(begin_span(&every, cause, "later", span_kind::consumer));
    CHECK(cause.traceparent == decided);
    cause = {};
    CHECK(begin_span(&every, cause, "first", span_kind::server));
    CHECK(core::parse_traceparent(cause.traceparent)->sampled);
}

TEST_CASE("without a tracer the trace of another passes through")
{
    trace_context cause{sampled, "a=b"}, none;
    CHECK_FALSE(begin_span(nullptr, cause, "x", span_kind::consumer));
    CHECK_FALSE(begin_span(nullptr, none, "x", span_kind::consumer));
    CHECK(cause.traceparent == sampled);
    CHECK(none.traceparent.empty());
}

TEST_CASE("a span's parent is its cause, and it is the cause of what follows")
{
    tracer t{{}};
    trace_context cause{sampled, "a=b"};
    auto const from = *core::parse_traceparent(sampled);
    {
        auto span = begin_span(&t, cause, "x", span_kind::consumer);
        CHECK(span.context().traceparent() == cause.traceparent);
        auto const inner = span.child("part");
        CHECK(inner.context().trace_id == from.trace_id);
    }
    auto const ended = all_of(t);
    REQUIRE(ended.size() == 2);
    CHECK(ended[0].parent == ended[1].self.span_id);
    CHECK(ended[1].parent == from.span_id);
    CHECK(ended[1].tracestate == "a=b");
    CHECK(ended[1].ended_ns >= ended[1].began_ns);
}

TEST_CASE("no two spans have one id")
{
    tracer t{{}};
    std::set<std::string> ids;
    for (int n = 0; n < 10'000; ++n) ids.insert(t.begin_trace().traceparent());
    CHECK(ids.size() == 10'000);
}

TEST_CASE("what finds no room is dropped and counted, and nobody waits")
{
    tracer t{{.waiting_max = 32}};
    for (int n = 0; n < 40; ++n) open_span{t, t.begin_trace(), "x", span_kind::internal};
    CHECK(t.dropped() == 8);
    CHECK(t.take(20, 0ms).size() == 20);
    CHECK(t.take(20, 0ms).size() == 12);
}

TEST_CASE("nothing does nothing")
{
    open_span nothing;
    nothing.set("a", "b").set("c", 1).link({}).set_parent({}, "");
    nothing.rename("x");
    nothing.fail("x");
    CHECK_FALSE(nothing.child("x"));
    nothing.end();
    CHECK_FALSE(nothing);
}

TEST_CASE("a span is moved, and ends once")
{
    tracer t{{}};
    {
        open_span first{t, t.begin_trace(), "one", span_kind::internal};
        open_span second{std::move(first)};
        second = open_span{t, t.begin_trace(), "two", span_kind::internal};
    }
    CHECK(all_of(t).size() == 2);
}

TEST_CASE("the JSON is that of OTLP/HTTP: ids in hexadecimal, 64-bit numbers as text")
{
    tracer t{{}};
    trace_context cause{sampled, "a=b"};
    {
        auto span = begin_span(&t, cause, "process charge-payment", span_kind::consumer);
        span.set("text", "no \xff").set("number", std::int64_t{1} << 62U).link(*core::parse_traceparent(sampled));
        span.fail("it broke");
    }
    auto const ended = all_of(t);
    auto const request = nlohmann::json::parse(export_request("payments", ended));
    auto const& resource = request["resourceSpans"][0];
    CHECK(resource["resource"]["attributes"][0]["value"]["stringValue"] == "payments");
    auto const& one = resource["scopeSpans"][0]["spans"][0];
    CHECK(one["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736");
    CHECK(one["parentSpanId"] == "00f067aa0ba902b7");
    CHECK(one["traceState"] == "a=b");
    CHECK(one["kind"] == 5);
    CHECK(one["startTimeUnixNano"].is_string());
    CHECK(one["attributes"][0]["value"]["stringValue"] == "no \xef\xbf\xbd");
    CHECK(one["attributes"][1]["value"]["intValue"] == "4611686018427387904");
    CHECK(one["links"][0]["spanId"] == "00f067aa0ba902b7");
    CHECK(one["status"]["code"] == 2);
    CHECK(one["status"]["message"] == "it broke");
}
