// Request targets: their parts, percent-encoding, query parameters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <skald/http.hpp>

namespace skald::http {

/// The parts of a request target, still encoded; views into it.
struct target_parts
{
    std::string_view authority;  // of the absolute form, "http://host:port/path"; empty otherwise
    std::string_view path;       // "/sagas/a%2Fb"
    std::string_view query;      // without '?'
};

/// Accepts the origin form, and the absolute form of http and https. Nothing for the rest: "*" and "host:port" ask for
/// what Skald does not offer, and a fragment never belongs in a request.
std::optional<target_parts> split_target(std::string_view target);

/// Fills in the path and the query of `message`, from its target. Returns why the target is refused, as a sentence for
/// the client: static text, empty if it is not. Needs the headers: the target may name the host, too.
std::string_view read_target(request& message);

/// Decodes %XX. Nothing if an escape is truncated, is not hexadecimal, or encodes a control byte: those are never part
/// of a name, and NUL ends strings in other programs.
std::optional<std::string> percent_decode(std::string_view encoded);

/// `text` as one path segment: everything except unreserved characters (RFC 3986) is escaped, slashes too.
std::string percent_encode_segment(std::string_view text);

/// The values of `name` in a query such as "state=parked&page=2", with + as a space; "" for a name without a value. One
/// that has invalid escapes is nothing.
std::vector<std::optional<std::string>> query_values(std::string_view query, std::string_view name);

/// The first of them. Nothing if it is absent or has invalid escapes.
std::optional<std::string> query_parameter(std::string_view query, std::string_view name);

}  // namespace skald::http
