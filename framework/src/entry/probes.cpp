#include "entry/probes.hpp"

#include "http/problem.hpp"

#include <chrono>
#include <exception>
#include <string>

namespace skald::entry_detail {

using namespace std::chrono_literals;

std::optional<http::response> liveness(http::request const& r)
{
    if ((r.method != "GET" && r.method != "HEAD") || r.path != "/livez") return std::nullopt;
    return http::response{200, "text/plain", {}, "alive\n"};
}

// Ready: a request can be accepted, for which the database is enough. While the broker is away, the outbox keeps what
// is accepted; a balancer that took every replica out would defeat that. So only the body reports the broker's state.
http::response readiness_probe::respond(postgres::postgres_store& store, ports::subscription const& deliveries)
try {
    store.read([](postgres::connection& c) { c.ping(answer_max); });
    if (!is_ready_.exchange(true)) log_.info("worker.ready", {});
    std::string const broker{deliveries.available() ? "connected" : "away"};
    return {200, "text/plain", {}, "ready\nbroker: " + broker + '\n'};
}
catch (std::exception const& error) {
    store.rollback();
    if (is_ready_.exchange(false)) log_.warning("worker.not_ready", {{"error", error.what()}});
    return not_ready("the database is away, or refuses the connection: the service's log says why");
}

http::response not_ready(std::string_view why)
{
    return http::with_retry_after(http::problem(http::problem_type::not_ready, why), 1s);
}

}  // namespace skald::entry_detail
