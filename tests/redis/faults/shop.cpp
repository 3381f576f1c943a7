#include "shop.hpp"

#include "core/log.hpp"
#include "entry/entry.hpp"
#include "memory/memory_transport.hpp"
#include "worker/http_server.hpp"

#include <skald/redis.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace skald::test {
namespace {

http::response leave_effect(http::request_context& ctx)
{
    thread_local std::mt19937_64 random{std::random_device{}()};
    auto const mark = std::to_string(random());
    ctx.sql("INSERT INTO effect VALUES ($1, $2)", ctx.key(), mark);
    return {201, "text/plain", {}, ctx.key() + ' ' + mark};
}

std::string variable(char const* name)
{
    char const* const value = std::getenv(name);
    return value != nullptr ? value : "";
}

config settings_of_environment()
{
    config c;
    c.http_listen = "127.0.0.1:" + variable("PORT");
    c.guard = variable("SKALD_GUARD");
    c.redis_url = variable("SKALD_REDIS_URL");
    c.redis_time = std::chrono::milliseconds{50};  // so that a busy machine is not one more reason to do without Redis
    c.redis_hold = std::chrono::milliseconds{300};
    c.http.kept_bytes_max = 0;
    return c;
}

}  // namespace

int serve()
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    std::signal(SIGPIPE, SIG_IGN);

    auto const settings = settings_of_environment();
    core::filtering_logger log{std::make_shared<core::stderr_logger>("shop"), core::severity::info};
    memory::memory_transport transport;
    auto const deliveries = transport.subscribe({"orders", 1});
    runtime::backlog const backlog;
    runtime::memory_source out;
    entry_detail::route_table routes;
    routes.add({"POST", "/guarded", http::idempotency::required, leave_effect});
    routes.add({"POST", "/repeatable", http::idempotency::may_repeat, leave_effect});
    entry entry{
        std::make_unique<entry::implementation>("orders", routes, settings, log, nullptr, redis()(settings, log))};
    entry.parts().open({{.url = variable("DATABASE_URL")}, *deliveries, backlog, out, "a database"});
    auto const server = worker_detail::make_server(settings, entry.parts(), log);
    server->start();
    log.info("worker.started", {{"http", server->address()}});
    int which = 0;
    sigwait(&ends, &which);
    server->drain(std::chrono::seconds{5});
    entry.parts().close(std::chrono::steady_clock::now() + std::chrono::seconds{5});
    // For the one that has started this: so that it knows whether Redis was of use.
    auto const& asked = entry.parts().front_counts().asked;
    std::string counts;
    for (std::size_t n = 0; n < asked.size(); ++n)
        counts += ' ' + std::string{metrics::front_results.at(n)} + '=' + std::to_string(asked.at(n).value());
    std::fprintf(stderr, "front:%s\n", counts.c_str());
    return 0;
}

}  // namespace skald::test
