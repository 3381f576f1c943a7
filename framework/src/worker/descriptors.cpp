#include "worker/descriptors.hpp"

#include "http/server.hpp"
#include "worker/health.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

#include <sys/resource.h>

namespace skald::worker_detail {
namespace {

// Standard streams, listening sockets, event loops, certificates, nodes of a cluster, databases of peers, and what
// steps and handlers open.
constexpr std::size_t spare = 128;

// In addition to the lanes: two that publish, one more for a backlog, the maintenance thread, the health address, and
// four of steps that call or wait.
constexpr std::size_t other_database_connections = 9;
constexpr std::size_t broker_connections = 3;

// A socket, and what interrupts it; at the broker also what wakes its thread.
constexpr std::size_t for_a_database_connection = 2;
constexpr std::size_t for_a_broker_connection = 3;

// At most, of what is in front of the guard for requests: for those that ask, and for its own thread.
constexpr std::size_t front_connections = 17;

}  // namespace

std::size_t descriptors_needed(config const& settings)
{
    auto needed = spare + for_a_database_connection * (settings.lanes + other_database_connections) +
                  for_a_broker_connection * broker_connections;
    if (!settings.http_listen.empty())
        needed +=
            for_a_database_connection * settings.http_lanes + settings.http.connections_max + http::turned_away_max;
    if (settings.guard != "postgres") needed += front_connections;
    if (has_health_address(settings)) needed += health_connections_max + http::turned_away_max;
    return needed;
}

void need_descriptors(config const& settings)
{
    auto const needed = descriptors_needed(settings);
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
    auto const allowed = limit.rlim_max;
    limit.rlim_cur = needed;
    if (allowed >= needed && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
    throw configuration_error{fmt::format(
        "this process may have {0} file descriptors (RLIMIT_NOFILE) and needs {1}{2}: raise the limit (ulimit -n {1}, "
        "LimitNOFILE={1} of the unit, --ulimit nofile={1} of the container){3}",
        allowed, needed,
        settings.http_listen.empty()
            ? ""
            : fmt::format(", of which SKALD_HTTP_CONNECTIONS_MAX are {}", settings.http.connections_max),
        settings.http_listen.empty() ? "" : ", or lower SKALD_HTTP_CONNECTIONS_MAX")};
}

}  // namespace skald::worker_detail
