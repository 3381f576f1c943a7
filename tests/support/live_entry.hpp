// A service's entry behind Skald's own server, on a real port and a real database, without the rest of its worker.
#pragma once

#include "core/log.hpp"
#include "memory/memory_transport.hpp"
#include "support/database.hpp"
#include "support/raw_http.hpp"
#include "support/recording_logger.hpp"
#include "worker/http_server.hpp"

#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace skald::test {

/// The server that comes with Skald.
class skalds_server
{
public:
    skalds_server(entry& of, config const& settings, core::logger& log)
        : server_{worker_detail::make_server(settings, of.parts(), log)}
    {
        server_->start();
    }

    std::uint16_t port() const { return server_->port(); }
    http::server_load load() const { return server_->load(); }
    bool drain(std::chrono::milliseconds within) { return server_->drain(within); }

private:
    std::unique_ptr<http::server> server_;
};

template <class Server>
struct live_entry_on
{
    explicit live_entry_on(std::vector<entry_detail::route> own = {}, http::scope_function scope_of = {},
                           config changed = {}, runtime::registry const* hosted = nullptr)
        : settings{completed(std::move(changed))}
    {
        for (auto& route : own) routes.add(std::move(route));
        routes.set_scope(std::move(scope_of));
        db.run("CREATE TABLE effect (what text)");
        entry.parts().open({{.url = db.url()}, *deliveries, backlog, out, {}, hosted, [this] { ++woken; }});
        server = std::make_unique<Server>(entry, settings, log);
    }

    test::raw_client connect() const { return test::raw_client{server->port()}; }

    /// `fields` are whole header lines.
    test::raw_answer ask(std::string const& method, std::string const& target, std::string const& fields = {},
                         std::string const& body = {}) const
    {
        return connect().ask(text(method, target, fields, body));
    }

    static std::string text(std::string const& method, std::string const& target, std::string const& fields = {},
                            std::string const& body = {})
    {
        return method + ' ' + target + " HTTP/1.1\r\nHost: shop\r\n" + fields +
               "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    }

    std::string effects() const { return db.rows("SELECT what FROM effect ORDER BY 1"); }

    static config completed(config c)
    {
        c.http_listen = "127.0.0.1:0";
        return c;
    }

    config const settings;
    database const db;
    runtime::backlog backlog;
    runtime::memory_source out;
    std::atomic<int> woken{};  // how often the process was told to look for waits that have ended
    recording_logger log;
    memory::memory_transport transport;
    std::unique_ptr<ports::subscription> deliveries{transport.subscribe({"orders", 1})};
    entry_detail::route_table routes;
    skald::entry entry{std::make_unique<skald::entry::implementation>("orders", routes, settings, log)};
    std::unique_ptr<Server> server;  // last: its threads use everything above
};

using live_entry = live_entry_on<skalds_server>;

/// The suffix of a problem's type: "in-flight"; of about:blank, "about:blank".
inline std::string problem_of(test::raw_answer const& answer)
{
    auto const type = nlohmann::json::parse(answer.body).at("type").get<std::string>();
    return type.starts_with("/problems/") ? type.substr(10) : type;
}

/// A handler that leaves `what` as its effect and answers 201.
inline http::entry_handler leaving(std::string what)
{
    return [what = std::move(what)](http::request_context& ctx) {
        ctx.sql("INSERT INTO effect VALUES ($1)", what);
        return http::json_response(201, {{"key", ctx.key()}});
    };
}

}  // namespace skald::test
