#include "worker/web.hpp"

#include "http/problem.hpp"
#include "worker/health.hpp"
#include "worker/saga_resource.hpp"

#include <skald/errors.hpp>

#include <variant>

namespace skald::worker_detail {
http::server_options server_options_of(config const& settings)
{
    http::server_options options;
    options.listen = settings.http_listen;
    options.limits = settings.http;
    options.lanes = settings.http_lanes;
    options.wait_max = settings.http_wait_max;
    if (!(settings.http_tls_certificate + settings.http_tls_key).empty())
        options.tls = http::tls_files{.certificate = settings.http_tls_certificate, .key = settings.http_tls_key};
    return options;
}

struct web::lane
{
    lane(std::string const& service, postgres::connection_options const& database, http::known_requests& known,
         runtime::backlog const& backlog, runtime::memory_source& out, core::logger& log)
        : store{database}, entry{service, store, known, backlog, out, log}, sagas{store, out, log}
    {}

    postgres::postgres_store store;
    http::entry entry;
    saga_resource sagas;
};

own_routes::own_routes(http::router& router)
    : saga{router.add("GET", "/sagas/{key}")}, cancel{router.add("DELETE", "/sagas/{key}")}, ready{router.add(
                                                                                                 "GET", "/readyz")}
{
    for (auto const* at_once : {"/livez", "/problems/{type}"})
        router.add("GET", at_once);  // these requests never reach the router
}

web::web(std::string const& service, config const& settings, postgres::connection_options const& database,
         std::vector<http::entry_route> routes, http::scope_function scope_of, ports::subscription const& deliveries,
         runtime::backlog const& backlog, runtime::memory_source& out, core::logger& log)
    : routes_{std::move(routes)}, scope_of_{std::move(scope_of)}, deliveries_{deliveries},
      known_{.answered = http::response_cache{{settings.http.kept_bytes_max, settings.http.kept_time}}},
      server_{server_options_of(settings),
              [this](http::received& asked, std::size_t number) { return answer(asked, number); }, log,
              [this](http::received& asked) { return answer_at_once(asked); }}
{
    for (auto const& route : routes_) router_.add(route.method, route.pattern);
    for (std::size_t i = 0; i < settings.http_lanes; ++i)
        lanes_.push_back(std::make_unique<lane>(service, database, known_, backlog, out, log));
}

web::~web() = default;

void web::start()
{
    server_.start();
}

std::string web::address() const
{
    return server_.address();
}

http::server_load web::load() const
{
    return server_.load();
}

bool web::drain(std::chrono::milliseconds within)
{
    return server_.drain(within);
}

http::reply web::answer(http::received& asked, std::size_t number)
{
    auto const found = find(asked);
    if (auto const* refusal = std::get_if<http::response>(&found)) return *refusal;
    auto const& [route, scope] = std::get<resource>(found);
    auto const& r = asked.message;
    auto& on = *lanes_.at(number);
    if (route == own_.ready) return readiness(on.store, deliveries_);
    if (route == own_.saga) return on.sagas.show(r, {scope, r.parameters.at("key")});
    if (route == own_.cancel) return on.sagas.cancel({scope, r.parameters.at("key")});
    if (route < first_route_) return http::problem(404, "There is no such type of problem.");
    return on.entry.answer(r, entry_at(route), scope);
}

// Liveness, the descriptions of problem types, and duplicates of requests that are running here or ended recently: none
// of them needs a lane. A scope function may block, so a service that has one looks for duplicates on the lanes.
std::optional<http::reply> web::answer_at_once(http::received& asked) const
{
    auto const& r = asked.message;
    if (auto alive = liveness(r)) return *std::move(alive);
    if (r.method == "GET" || r.method == "HEAD")
        if (auto description = http::describe_problem(r.path)) return *std::move(description);
    if (scope_of_) return {};

    auto const found = find(asked);
    if (auto const* refusal = std::get_if<http::response>(&found)) return *refusal;
    auto const& [route, scope] = std::get<resource>(found);
    if (route < first_route_) return {};  // Skald's own route
    return http::answer_to_known(known_, r, entry_at(route), scope);
}

// Looked up at the first call for a request, and kept for the next ones.
std::variant<web::resource, http::response> web::find(http::received& asked) const
{
    if (auto const* known = std::any_cast<resource>(&asked.notes)) return *known;
    auto found = look_up(asked.message);
    if (auto const* match = std::get_if<resource>(&found)) asked.notes = *match;
    return found;
}

std::variant<web::resource, http::response> web::look_up(http::request& r) const
try {
    auto found = router_.find(r);
    if (auto* refusal = std::get_if<http::response>(&found)) return std::move(*refusal);
    auto& match = std::get<http::route_match>(found);
    r.parameters = std::move(match.parameters);
    return resource{match.route, match.route == own_.ready ? std::string{} : scope_of(r)};
}
catch (http::unauthorized const& error) {
    auto refusal = http::problem(http::problem_type::unauthorized, error.what());
    refusal.headers.emplace_back("WWW-Authenticate", error.challenge);
    return refusal;
}
catch (data_error const& error) {
    return http::problem(http::problem_type::scope, error.what());
}

// Called for every request, even if the response is stored: a client that has lost access must not get it.
std::string web::scope_of(http::request const& r) const
{
    auto scope = scope_of_ ? scope_of_(r) : std::string{};
    if (!core::is_scope(scope)) throw data_error{"the scope is longer than 64 bytes, or no UTF-8"};
    return scope;
}

}  // namespace skald::worker_detail
