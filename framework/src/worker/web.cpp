#include "worker/web.hpp"

#include "admin/saga_view.hpp"
#include "http/entry.hpp"
#include "http/problem.hpp"

#include <skald/errors.hpp>

#include <pqxx/except>

#include <variant>

namespace skald::worker_detail {
namespace {

using namespace std::chrono_literals;

http::server_options server_options_of(config const& settings)
{
    http::server_options options;
    options.listen = settings.http_listen;
    options.lanes = settings.http_lanes;
    return options;
}

// Answered without asking anybody: the process is alive.
std::optional<http::response> alive(http::request const& r)
{
    if (r.path != "/livez" || (r.method != "GET" && r.method != "HEAD")) return std::nullopt;
    return http::response{200, "text/plain", {}, "alive\n"};
}

}  // namespace

struct web::lane
{
    lane(config const& settings, postgres::connection_options const& database, runtime::backlog const& backlog,
         runtime::wakeup& relay, core::logger& log)
        : store{database}, entry{settings.service, store, backlog, relay, log}
    {}

    postgres::postgres_store store;
    http::entry entry;
};

namespace {

// A connection from before a restart of the server shows itself by breaking: then once more, on a new one.
template <class Lane, class Read>
auto read(Lane& on, Read what)
try {
    return what(on.store.open());
}
catch (pqxx::broken_connection const&) {
    return what(on.store.open());
}

}  // namespace

web::web(config const& settings, postgres::connection_options database, std::vector<entry_route> routes,
         http::scope_function scope_of, ports::subscription const& deliveries, runtime::backlog const& backlog,
         runtime::wakeup& relay, core::logger& log)
    : routes_{std::move(routes)}, scope_of_{std::move(scope_of)}, deliveries_{deliveries}, log_{log},
      server_{server_options_of(settings), [this](http::request& r, std::size_t number) { return answer(r, number); },
              log, alive}
{
    for (auto const& route : routes_) router_.add("POST", route.pattern);
    saga_route_ = router_.add("GET", "/sagas/{key}");
    ready_route_ = router_.add("GET", "/readyz");
    for (std::size_t i = 0; i < settings.http_lanes; ++i)
        lanes_.push_back(std::make_unique<lane>(settings, database, backlog, relay, log));
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

bool web::drain(std::chrono::milliseconds within)
{
    return server_.drain(within);
}

http::response web::answer(http::request& r, std::size_t number)
{
    auto found = router_.find(r);
    if (auto* refusal = std::get_if<http::response>(&found)) return *refusal;
    auto& match = std::get<http::route_match>(found);
    r.parameters = std::move(match.parameters);
    auto& on = *lanes_.at(number);
    if (match.route == ready_route_) return ready(on);

    std::string scope;
    try {
        if (scope_of_) scope = scope_of_(r);
    }
    catch (data_error const& error) {
        return http::problem(400, "scope", {}, error.what());
    }
    if (!core::is_scope(scope)) return http::problem(400, "scope", {}, "the scope is longer than 64 bytes, or no UTF-8");

    if (match.route == saga_route_) return show_saga({scope, r.parameters.at("key")}, on);
    auto const& route = routes_.at(match.route);
    return on.entry.answer(r, route.pattern, scope, route.handler);
}

http::response web::show_saga(core::saga_id const& id, lane& on)
try {
    if (!core::is_key(id.key)) return http::problem(404, "there is no such saga");
    auto const saga = read(on, [&](postgres::connection& c) { return admin::show_saga(c, id); });
    return saga ? http::json_response(200, *saga) : http::problem(404, "there is no such saga");
}
catch (std::exception const& error) {
    log_.warning("saga.not_shown", {{"error", error.what()}});
    return http::with_retry_after(http::problem(503, "the database is away"), 1s);
}

// Ready: the database answers, and the broker's connection is up.
http::response web::ready(lane& on) const
try {
    read(on, [](postgres::connection& c) { return c.run("SELECT 1"); });
    if (deliveries_.available()) return {200, "text/plain", {}, "ready\n"};
    return http::with_retry_after(http::problem(503, "not-ready", {}, "the broker is away"), 1s);
}
catch (std::exception const&) {
    on.store.rollback();
    return http::with_retry_after(http::problem(503, "not-ready", {}, "the database is away"), 1s);
}

}  // namespace skald::worker_detail
