#include "entry/routes.hpp"

#include "core/uuid.hpp"
#include "entry/idempotency_key.hpp"
#include "entry/scopes.hpp"
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
    : saga_{router_.add("GET", "/sagas/{key}")}, cancellation_{router_.add("DELETE", "/sagas/{key}")},
      readiness_{router_.add("GET", "/readyz")}
{
    for (auto const* answered_before : {"/livez", "/problems/{type}"}) router_.add("GET", answered_before);
    first_handler_ = router_.size();
}

void route_table::add(route added)
{
    router_.add(added.method, added.pattern);
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
    if (match.route == readiness_) return destination{destination::kind::readiness};
    if (match.route == saga_) return destination{destination::kind::saga, {}, {scope_of(r), r.parameters.at("key")}};
    if (match.route == cancellation_)
        return destination{destination::kind::cancellation, {}, {scope_of(r), r.parameters.at("key")}};
    if (match.route < first_handler_) return http::problem(404, "There is no such type of problem.");
    return destination_of(r, routes_.at(match.route - first_handler_), scope_of(r));
}
catch (http::unauthorized const& error) {
    auto refusal = http::problem(http::problem_type::unauthorized, error.what());
    refusal.headers.emplace_back("WWW-Authenticate", error.challenge);
    return refusal;
}
catch (data_error const& error) {
    return http::problem(http::problem_type::scope, error.what());
}

std::string route_table::scope_of(http::request const& r) const
{
    auto scope = scope_of_ ? scope_of_(r) : std::string{};
    if (!core::is_scope(scope)) throw data_error{"the scope is longer than 64 bytes, or no UTF-8"};
    return scope;
}

}  // namespace skald::entry_detail
