#include "entry/routes.hpp"

#include "core/uuid.hpp"
#include "entry/idempotency_key.hpp"
#include "entry/scopes.hpp"
#include "entry/signals.hpp"
#include "http/problem.hpp"

#include <skald/errors.hpp>

#include <utility>

namespace skald::entry_detail {

std::variant<destination, http::response> destination_of(http::request const& r, route const& by, std::string scope)
{
    destination found{destination::kind::handler, &by, {std::move(scope), {}}};
    auto key = by.key == http::idempotency::off ? idempotency_key{} : idempotency_key_of(r);
    if (by.key == http::idempotency::off || (by.key == http::idempotency::optional && key.is_missing)) {
        // The request is executed each time that it is sent; the guard then uses a generated key.
        found.id.key = core::make_uuid_v7();
        found.client_has_key = false;
        return found;
    }
    if (!key) return http::problem(http::problem_type::idempotency_key, key.refusal);
    found.id.key = std::move(key.value);
    return found;
}

route_table::route_table()
{
    // Also for probes and problems, which are responded to before a route is looked for.
    counts_.push_back(std::make_unique<metrics::route_metrics>("other"));
    saga_ = add_pattern("GET", "/sagas/{key}");
    cancellation_ = add_pattern("DELETE", "/sagas/{key}");
    signal_ = signal_route();
    signals_ = add_pattern(signal_.method, signal_.pattern);
    readiness_ = add_pattern("GET", "/readyz");
    for (auto const* answered_before : {"/livez", "/problems/{type}"}) add_pattern("GET", answered_before);
    first_handler_ = router_.size();
}

// A route's number is one more than the router's: 0 is none.
std::size_t route_table::add_pattern(std::string const& method, std::string const& pattern)
{
    auto const number = router_.add(method, pattern);
    counts_.push_back(std::make_unique<metrics::route_metrics>(method + ' ' + pattern));
    return number;
}

void route_table::add(route added)
{
    add_pattern(added.method, added.pattern);
    routes_.push_back(std::move(added));
}

bool route_table::finds_at_once() const
{
    return !scope_of_ || is_scope_from_request(scope_of_);
}

std::variant<destination, http::response> route_table::find(http::request& r) const
try {
    auto found = router_.find(r);
    if (auto* refusal = std::get_if<http::response>(&found)) return std::move(*refusal);
    auto& match = std::get<http::route_match>(found);
    r.parameters = std::move(match.parameters);
    auto made = to_match(r, match.route);
    if (auto* to = std::get_if<destination>(&made)) to->number = match.route + 1;
    return made;
}
catch (http::unauthorized const& error) {
    auto refusal = http::problem(http::problem_type::unauthorized, error.what());
    refusal.headers.emplace_back("WWW-Authenticate", error.challenge);
    return refusal;
}
catch (data_error const& error) {
    return http::problem(http::problem_type::scope, error.what());
}

std::variant<destination, http::response> route_table::to_match(http::request& r, std::size_t route) const
{
    if (route == readiness_) return destination{destination::kind::readiness};
    if (route == saga_) return destination{destination::kind::saga, {}, {scope_of(r), r.parameters.at("key")}};
    if (route == cancellation_)
        return destination{destination::kind::cancellation, {}, {scope_of(r), r.parameters.at("key")}};
    if (route == signals_) return destination_of(r, signal_, scope_of(r));
    if (route < first_handler_) return http::problem(404, "There is no such type of problem.");
    return destination_of(r, routes_.at(route - first_handler_), scope_of(r));
}

std::string route_table::scope_of(http::request const& r) const
{
    auto scope = scope_of_ ? scope_of_(r) : std::string{};
    if (!core::is_scope(scope)) throw data_error{"the scope is longer than 64 bytes, or no UTF-8"};
    return scope;
}

}  // namespace skald::entry_detail
