// What was used in the meantime: the servers' own counters, processor time, memory.
#pragma once

#include "bench_databases.hpp"
#include "fleet.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace skald_bench {

struct row_counts
{
    std::int64_t inserted{}, updated{}, deleted{};
    bool operator==(row_counts const&) const = default;
};

/// Since the start of the server, or between two readings.
struct server_counts
{
    std::int64_t wal_records{}, wal_full_pages{}, wal_bytes{}, wal_writes{}, wal_flushes{};
    std::int64_t commits{}, rollbacks{};
    std::map<std::string, row_counts> rows;  // by table, of the three databases together
};

server_counts operator-(server_counts const& later, server_counts const& earlier);

/// Exact when no service runs and after disconnect_all(); otherwise up to a second late.
server_counts count_on_server(bench_databases& databases);

struct cpu_split
{
    double services{}, postgres{}, broker{}, driver{};  // seconds
};

cpu_split operator-(cpu_split const& later, cpu_split const& earlier);

/// The processes of the servers, found once. On another machine there are none, and their shares are 0.
class machine
{
public:
    /// `broker_port`: where the broker listens; 0: there is none.
    machine(bench_databases& databases, int broker_port);

    cpu_split cpu(fleet const& services) const;

    /// Of each service, and of the broker, by name.
    std::map<std::string, double> peak_rss_mib(fleet const& services) const;

    bool sees_servers() const { return postgres_ && broker_; }

private:
    std::optional<pid_t> postgres_, broker_;
};

/// From what peak_rss_mib() found: the largest service.
double most_of_a_service(std::map<std::string, double> const& peaks);

/// Versions, cores and the relevant settings of both servers.
nlohmann::ordered_json describe_settings(bench_databases& databases, std::string const& broker_url);

}  // namespace skald_bench
