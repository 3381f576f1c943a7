// A service's HTTP side on a real port and a real database, without the rest of its worker.
#pragma once

#include "core/log.hpp"
#include "memory/memory_transport.hpp"
#include "support/database.hpp"
#include "support/raw_http.hpp"
#include "worker/web.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace skald::test {

struct live_web
{
    explicit live_web(std::vector<http::entry_route> routes = {}, http::scope_function scope_of = {},
                      config changed = {})
        : settings{completed(std::move(changed))}, web{std::make_unique<worker_detail::web>(
                                                       "orders", settings,
                                                       postgres::connection_options{.url = db.url()}, std::move(routes),
                                                       std::move(scope_of), *deliveries, backlog, out, log)}
    {
        db.run("CREATE TABLE effect (what text)");
        web->start();
    }

    test::raw_client connect() const
    {
        auto const address = web->address();
        return test::raw_client{
            static_cast<std::uint16_t>(std::strtoul(address.c_str() + address.rfind(':') + 1, nullptr, 10))};
    }

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
    core::silent_logger log;
    memory::memory_transport transport;
    std::unique_ptr<ports::subscription> deliveries{transport.subscribe({"orders", 1})};
    std::unique_ptr<worker_detail::web> web;
};

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
