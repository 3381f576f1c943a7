// A service's HTTP side: its entry routes, the state of its sagas, and health.
#pragma once

#include "core/identity.hpp"
#include "core/log.hpp"
#include "http/entry.hpp"
#include "http/router.hpp"
#include "http/server.hpp"
#include "ports/transport.hpp"
#include "postgres/postgres_store.hpp"
#include "runtime/backlog.hpp"
#include "runtime/memory_source.hpp"

#include <skald/config.hpp>
#include <skald/http_handler.hpp>

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace skald::worker_detail {

/// The routes that every service has.
struct own_routes
{
    /// Throws std::logic_error where `router` has one of them already.
    explicit own_routes(http::router& router);

    std::size_t saga;
    std::size_t cancel;
    std::size_t ready;
};

/// The server's options according to the settings.
http::server_options server_options_of(config const& settings);

class web
{
public:
    /// Listens. Throws std::runtime_error if it can't listen on the address or can't use the TLS files.
    web(std::string const& service, config const& settings, postgres::connection_options const& database,
        std::vector<http::entry_route> routes, http::scope_function scope_of, ports::subscription const& deliveries,
        runtime::backlog const& backlog, runtime::memory_source& out, core::logger& log);
    ~web();

    void start();
    std::string address() const;
    http::server_load load() const;
    bool drain(std::chrono::milliseconds within);

private:
    struct lane;

    /// The requested route, and the scope of the client.
    struct resource
    {
        std::size_t route;
        std::string scope;
    };

    std::variant<resource, http::response> find(http::received& asked) const;
    std::variant<resource, http::response> look_up(http::request& r) const;
    http::reply answer(http::received& asked, std::size_t number);
    std::optional<http::reply> answer_at_once(http::received& asked) const;
    http::entry_route const& entry_at(std::size_t route) const { return routes_.at(route - first_route_); }
    std::string scope_of(http::request const& r) const;

    std::vector<http::entry_route> routes_;
    http::scope_function scope_of_;
    ports::subscription const& deliveries_;
    http::router router_;
    own_routes own_{router_};
    std::size_t const first_route_{router_.size()};  // the number of routes_[0]; the routes before it are Skald's own
    http::known_requests known_;
    std::vector<std::unique_ptr<lane>> lanes_;
    http::server server_;  // last: its threads use everything above
};

}  // namespace skald::worker_detail
