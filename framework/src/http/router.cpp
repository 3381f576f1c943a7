#include "http/router.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "http/problem.hpp"
#include "http/target.hpp"

namespace skald::http {
namespace {

/// "/a/b/" has the segments "a", "b" and "".
std::vector<std::string_view> split_path(std::string_view path)
{
    std::vector<std::string_view> segments;
    while (!path.empty()) {
        path.remove_prefix(1);
        segments.push_back(path.substr(0, path.find('/')));
        path.remove_prefix(segments.back().size());
    }
    return segments;
}

/// Nothing if no route can match the target.
std::optional<std::vector<std::string>> decoded_segments(std::string_view target)
{
    auto const parts = split_target(target);
    if (!parts) return {};

    std::vector<std::string> segments;
    for (auto const raw : split_path(parts->path)) {
        auto decoded = percent_decode(raw);
        if (!decoded) return {};
        segments.push_back(*std::move(decoded));
    }
    return segments;
}

bool serves(std::string_view route_method, std::string_view asked)
{
    return route_method == asked || (route_method == "GET" && asked == "HEAD");
}

}  // namespace

std::size_t router::add(std::string_view method, std::string_view pattern)
{
    auto const malformed = [&](std::string const& why) {
        return std::logic_error{"the route '" + std::string{pattern} + "' is malformed: " + why};
    };
    if (method.empty()) throw malformed("it has no method");
    if (!pattern.starts_with('/')) throw malformed("it begins with a slash, as '/" + std::string{pattern} + "'");

    route added{.method = std::string{method}, .segments = {}};
    for (auto const text : split_path(pattern)) {
        bool const is_parameter = text.size() > 2 && text.starts_with('{') && text.ends_with('}');
        if (!is_parameter && text.find_first_of("{}") != std::string_view::npos)
            throw malformed("a parameter is a whole segment, as '/{id}'");
        added.segments.push_back({std::string{is_parameter ? text.substr(1, text.size() - 2) : text}, is_parameter});
    }
    for (auto const& other : routes_)
        if (is_same(other, added))
            throw std::logic_error{"two routes are for " + added.method + ' ' + std::string{pattern}};
    routes_.push_back(std::move(added));
    return routes_.size() - 1;
}

std::variant<route_match, response> router::find(request const& message) const
{
    auto path = decoded_segments(message.target);
    auto const candidates = path ? fitting(*path) : std::vector<std::size_t>{};
    if (candidates.empty()) return problem(404, "No resource has this path.");

    route const* best = nullptr;
    for (auto const index : candidates) {
        auto const& r = routes_[index];
        if (!serves(r.method, message.method)) continue;
        bool const is_own_head = best && r.method == message.method && best->method != message.method;
        if (!best || is_closer(r, *best) || (is_own_head && !is_closer(*best, r))) best = &r;
    }
    if (!best) return not_allowed(candidates, message);

    route_match match{.route = static_cast<std::size_t>(best - routes_.data()), .parameters = {}};
    for (std::size_t i = 0; i < best->segments.size(); ++i)
        if (best->segments[i].is_parameter) match.parameters[best->segments[i].text] = std::move((*path)[i]);
    return match;
}

bool router::fits(route const& r, std::vector<std::string> const& path)
{
    // An empty segment names nothing, so it never matches a parameter.
    return std::equal(
        r.segments.begin(), r.segments.end(), path.begin(), path.end(),
        [](segment const& s, std::string const& text) { return s.is_parameter ? !text.empty() : s.text == text; });
}

bool router::is_same(route const& a, route const& b)
{
    auto const same = [](segment const& x, segment const& y) {
        return x.is_parameter == y.is_parameter && (x.is_parameter || x.text == y.text);
    };
    return a.method == b.method &&
           std::equal(a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(), same);
}

bool router::is_closer(route const& a, route const& b)
{
    auto const literal_first = [](segment const& x, segment const& y) { return x.is_parameter < y.is_parameter; };
    return std::lexicographical_compare(a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(),
                                        literal_first);
}

std::vector<std::size_t> router::fitting(std::vector<std::string> const& path) const
{
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < routes_.size(); ++i)
        if (fits(routes_[i], path)) found.push_back(i);
    return found;
}

response router::not_allowed(std::vector<std::size_t> const& candidates, request const& message) const
{
    std::set<std::string> methods;
    for (auto const index : candidates) {
        methods.insert(routes_[index].method);
        if (routes_[index].method == "GET") methods.insert("HEAD");
    }
    std::string allowed;
    for (auto const& method : methods) allowed.append(allowed.empty() ? "" : ", ").append(method);

    auto answer = problem(405, "This resource does not have the method " + message.method + ".");
    answer.headers.emplace_back("Allow", allowed);
    return answer;
}

}  // namespace skald::http
