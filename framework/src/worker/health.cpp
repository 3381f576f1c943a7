#include "worker/health.hpp"

#include "entry/probes.hpp"
#include "http/problem.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace skald::worker_detail {
namespace {

using namespace std::chrono_literals;

// A probe's request comes at once, in one piece.
constexpr std::chrono::milliseconds header_time{1'000};

constexpr char const* metrics_type = "text/plain; version=0.0.4; charset=utf-8";

bool is_get(http::request const& r, std::string_view path)
{
    return (r.method == "GET" || r.method == "HEAD") && r.path == path;
}

http::server_options options_of(config const& settings)
{
    http::server_options options;
    options.listen = settings.health_listen;
    options.listen_name = "SKALD_HEALTH_LISTEN (--health-listen)";
    options.limits.body_bytes_max = 0;
    options.limits.connections_max = health_connections_max;
    options.limits.header_time = header_time;
    options.sheds_slow_clients = true;
    options.lanes = 1;
    options.limits.queue_max = health_connections_max;
    return options;
}

postgres::connection_options impatient(postgres::connection_options database)
{
    database.statement_timeout = std::min(database.statement_timeout, entry_detail::answer_max);
    database.commit_timeout = std::min(database.commit_timeout, entry_detail::answer_max);
    return database;
}

}  // namespace

bool has_health_address(config const& settings)
{
    return !settings.health_listen.empty() && settings.health_listen != "off";
}

health::health(config const& settings, postgres::connection_options const& database, metrics_page const& metrics,
               core::logger& log)
    : metrics_{metrics}, readiness_{log}, store_{impatient(database)},
      server_{options_of(settings), [this](http::received const& asked, std::size_t) { return answer(asked.message); },
              log, [this](http::received const& asked) { return answer_at_once(asked.message); }}
{}

std::optional<http::response> health::why_not_ready() const
{
    if (is_draining_) return entry_detail::not_ready("the service is stopping");
    if (parts_ == nullptr) return entry_detail::not_ready("the service is starting");
    return std::nullopt;
}

std::optional<http::reply> health::answer_at_once(http::request const& r) const
{
    if (auto alive = entry_detail::liveness(r)) return *std::move(alive);
    // Also here, and not on the lane, which may be waiting for the database.
    if (is_get(r, "/metrics")) return http::response{200, metrics_type, {}, metrics_.text(parts_)};
    if (!is_get(r, "/readyz")) return http::problem(404, "Here is /livez, /readyz, and /metrics.");
    if (auto why = why_not_ready()) return *std::move(why);
    return {};
}

http::response health::answer(http::request const&)
{
    // Check again: what readiness() uses is destroyed once the process has drained.
    if (auto why = why_not_ready()) return *std::move(why);
    return readiness_.respond(store_, parts_.load()->deliveries);
}

}  // namespace skald::worker_detail
