// The table of routes of a service's entry: the service's own, and those that every service has.
#pragma once

#include "core/identity.hpp"
#include "http/router.hpp"
#include "metrics/route_metrics.hpp"
#include "runtime/registry.hpp"

#include <skald/http_handler.hpp>

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace skald::entry_detail {

/// A route of the service's own.
struct route
{
    std::string method;
    std::string pattern;
    http::idempotency key{};
    http::entry_handler handler;
    /// Of a signal: throws body_error if a step here can't read it. What such a route commits is looked for at once.
    std::function<void(http::request_context&, runtime::registry const&)> check{};
    bool is_found_later{};  // what a 404 says is not there may come: it is no outcome, and not stored
};

/// What a request asks for, and whose it is.
struct destination
{
    enum class kind {
        handler,       // `by` handles it
        saga,          // the state of the saga `id`
        cancellation,  // of the saga `id`
        readiness,
    };

    kind what{};
    route const* by{};
    core::saga_id id{};         // the scope is the client's; the key is the header's, generated, or that of the path
    bool client_has_key{true};  // false: `id.key` was generated, and no client can ask with it again
    std::size_t number{};       // of the route, for what is counted; 0 if it has none
};

/// A request that a handler of the service's own is for.
struct guarded_request
{
    http::request const& message;
    destination const& to;
};

/// The destination of a request that the handler `by` is for; or the 400 if it has no valid key and needs one.
std::variant<destination, http::response> destination_of(http::request const& r, route const& by, std::string scope);

/// Threads: one until the first find(); find() from any.
class route_table
{
public:
    route_table();

    /// Throws std::logic_error for a malformed pattern, and if a request would match two routes.
    void add(route added);

    /// Determines the scope of each request. Without it every request has the scope ''.
    void set_scope(http::scope_function scope_of) { scope_of_ = std::move(scope_of); }

    /// Whether the service has routes of its own.
    bool has_handlers() const { return !routes_.empty(); }

    /// What is counted of the requests to a route: `number` is that of a destination. Those of number 0 went to none.
    metrics::route_metrics& counts(std::size_t number) const { return *counts_.at(number); }
    std::vector<std::unique_ptr<metrics::route_metrics>> const& all_counts() const { return counts_; }

    /// Whether find() never blocks: the scope comes from a function of Skald's that asks nobody else.
    bool finds_at_once() const;

    /// Where the request goes; sets its parameters. Or the response if it goes nowhere: there is no such route, its
    /// scope can't be determined, or it has no valid key where it needs one. Called once for each request, also if its
    /// response is stored: a client that has lost access must not get it.
    std::variant<destination, http::response> find(http::request& r) const;

private:
    std::size_t add_pattern(std::string const& method, std::string const& pattern);
    std::variant<destination, http::response> to_match(http::request& r, std::size_t route) const;
    std::string scope_of(http::request const& r) const;

    http::router router_;
    std::vector<std::unique_ptr<metrics::route_metrics>> counts_;  // one more than routes
    std::size_t saga_{};
    std::size_t cancellation_{};
    std::size_t readiness_{};
    std::size_t first_handler_{};  // the number of routes_[0] in the router
    std::size_t signals_{};
    route signal_;
    std::vector<route> routes_;
    http::scope_function scope_of_;
};

}  // namespace skald::entry_detail
