// A service's HTTP side: its entry routes, the state of its sagas, and health.
#pragma once

#include "core/identity.hpp"
#include "core/log.hpp"
#include "http/router.hpp"
#include "http/server.hpp"
#include "ports/transport.hpp"
#include "postgres/postgres_store.hpp"
#include "runtime/backlog.hpp"
#include "runtime/wakeup.hpp"

#include <skald/config.hpp>
#include <skald/http_handler.hpp>

#include <memory>
#include <string>
#include <vector>

namespace skald::worker_detail {

struct entry_route
{
    std::string pattern;
    http::entry_handler handler;
};

class web
{
public:
    /// Listens. Throws std::runtime_error for an address that can't be listened on.
    web(config const& settings, postgres::connection_options database, std::vector<entry_route> routes,
        http::scope_function scope_of, ports::subscription const& deliveries, runtime::backlog const& backlog,
        runtime::wakeup& relay, core::logger& log);
    ~web();

    void start();
    std::string address() const;
    bool drain(std::chrono::milliseconds within);

private:
    struct lane;

    http::response answer(http::request& r, std::size_t number);
    http::response show_saga(core::saga_id const& id, lane& on);
    http::response ready(lane& on) const;

    std::vector<entry_route> routes_;
    http::scope_function scope_of_;
    ports::subscription const& deliveries_;
    core::logger& log_;
    http::router router_;
    std::size_t saga_route_{};
    std::size_t ready_route_{};
    std::vector<std::unique_ptr<lane>> lanes_;
    http::server server_;  // last: its threads use everything above
};

}  // namespace skald::worker_detail
