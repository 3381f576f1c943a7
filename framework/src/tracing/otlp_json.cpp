#include "tracing/otlp_json.hpp"

#include <nlohmann/json.hpp>

namespace skald::tracing {
namespace {

using nlohmann::json;

constexpr int status_error = 2;

json any_value(std::variant<std::string, std::int64_t> const& value)
{
    if (auto const* number = std::get_if<std::int64_t>(&value)) return {{"intValue", std::to_string(*number)}};
    return {{"stringValue", std::get<std::string>(value)}};
}

json key_value(std::string_view name, std::variant<std::string, std::int64_t> const& value)
{
    return {{"key", name}, {"value", any_value(value)}};
}

// Ids are hexadecimal and 64-bit numbers are text: the specification's two exceptions, and protobuf's rule.
json to_json(span const& s)
{
    json made{{"traceId", s.self.trace_id_text()},
              {"spanId", s.self.span_id_text()},
              {"name", s.name},
              {"kind", static_cast<int>(s.kind)},
              {"startTimeUnixNano", std::to_string(s.began_ns)},
              {"endTimeUnixNano", std::to_string(s.ended_ns)}};
    if (s.parent) {
        core::span_context const parent{s.self.trace_id, *s.parent, true};
        made["parentSpanId"] = parent.span_id_text();
    }
    if (!s.tracestate.empty()) made["traceState"] = s.tracestate;
    for (auto const& [name, value] : s.attributes) made["attributes"].push_back(key_value(name, value));
    for (auto const& cause : s.links)
        made["links"].push_back({{"traceId", cause.trace_id_text()}, {"spanId", cause.span_id_text()}});
    if (!s.error.empty()) made["status"] = {{"code", status_error}, {"message", s.error}};
    return made;
}

}  // namespace

std::string export_request(std::string_view service, std::span<span const> spans)
{
    auto all = json::array();
    for (auto const& one : spans) all.push_back(to_json(one));
    json const request{{"resourceSpans",
                        {{{"resource", {{"attributes", {key_value("service.name", std::string{service})}}}},
                          {"scopeSpans", {{{"scope", {{"name", "skald"}}}, {"spans", std::move(all)}}}}}}}};
    return request.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace skald::tracing
