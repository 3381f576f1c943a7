// Finds the route of a request.
//
// A pattern is a path whose segments are literals or {parameters}, such as "/sagas/{key}". A parameter matches exactly
// one segment, which is decoded after the path was split: "/sagas/a%2Fb" is the saga "a/b".
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <skald/http.hpp>

namespace skald::http {

struct route_match
{
    std::size_t route;                              // as add() returned it
    std::map<std::string, std::string> parameters;  // decoded; for request::parameters
};

/// Threads: add() before the first find(); find() from any.
class router
{
public:
    /// Returns 0, 1, 2...: the caller keeps what it needs for a route (its handler, its options) in a vector of its
    /// own. Throws std::logic_error for a malformed pattern, or for one that was already added.
    std::size_t add(std::string_view method, std::string_view pattern);

    /// How many routes were added.
    std::size_t size() const { return routes_.size(); }

    /// A literal segment wins over a parameter; the leftmost difference decides. HEAD uses the route of GET if it has
    /// none of its own. If no route matches: the 404, or the 405 with its Allow header.
    std::variant<route_match, response> find(request const& message) const;

private:
    struct segment
    {
        std::string text;  // the literal, or the parameter's name
        bool is_parameter;
    };
    struct route
    {
        std::string method;
        std::vector<segment> segments;
    };

    static bool fits(route const& r, std::vector<std::string> const& path);
    static bool is_same(route const& a, route const& b);
    static bool is_closer(route const& a, route const& b);
    std::vector<std::size_t> fitting(std::vector<std::string> const& path) const;
    response not_allowed(std::vector<std::size_t> const& candidates, request const& message) const;

    std::vector<route> routes_;
};

}  // namespace skald::http
