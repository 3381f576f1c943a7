#include "meter.hpp"

#include "bench_tool_sql.hpp"
#include "broker_extras.hpp"
#include "processes.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace skald_bench {

server_counts operator-(server_counts const& later, server_counts const& earlier)
{
    server_counts between{later.wal_records - earlier.wal_records, later.wal_full_pages - earlier.wal_full_pages,
                          later.wal_bytes - earlier.wal_bytes,     later.wal_writes - earlier.wal_writes,
                          later.wal_flushes - earlier.wal_flushes, later.commits - earlier.commits,
                          later.rollbacks - earlier.rollbacks,     {}};
    for (auto const& [table, now] : later.rows) {
        auto const found = earlier.rows.find(table);
        auto const before = found == earlier.rows.end() ? row_counts{} : found->second;
        row_counts const counted{now.inserted - before.inserted, now.updated - before.updated,
                                 now.deleted - before.deleted};
        if (counted != row_counts{}) between.rows.emplace(table, counted);
    }
    return between;
}

server_counts count_on_server(bench_databases& databases)
{
    server_counts counted;
    auto const wal = ask(databases.at(orders), sql::wal)[0];
    counted.wal_records = wal[0].as<std::int64_t>();
    counted.wal_full_pages = wal[1].as<std::int64_t>();
    counted.wal_bytes = wal[2].as<std::int64_t>();
    counted.wal_writes = wal[3].as<std::int64_t>();
    counted.wal_flushes = wal[4].as<std::int64_t>();
    for (std::size_t i = 0; i < service_names.size(); ++i) {
        for (auto const& row : ask(databases.at(i), sql::rows)) {
            auto& table = counted.rows[row[0].c_str()];
            table.inserted += row[1].as<std::int64_t>();
            table.updated += row[2].as<std::int64_t>();
            table.deleted += row[3].as<std::int64_t>();
        }
    }
    auto const transactions = ask(databases.at(orders), sql::transactions, databases.database_names())[0];
    counted.commits = transactions[0].as<std::int64_t>();
    counted.rollbacks = transactions[1].as<std::int64_t>();
    return counted;
}

cpu_split operator-(cpu_split const& later, cpu_split const& earlier)
{
    return {later.services - earlier.services, later.postgres - earlier.postgres, later.broker - earlier.broker,
            later.driver - earlier.driver};
}

machine::machine(bench_databases& databases, int broker_port)
{
    auto const backend = ask(databases.at(orders), sql::backend)[0][0].as<pid_t>();
    if (name_of(backend).starts_with("postgres")) postgres_ = parent_of(backend);
    if (broker_port != 0) broker_ = listener_on(broker_port);
}

cpu_split machine::cpu(fleet const& services) const
{
    cpu_split used;
    for (auto const& one : services.processes()) used.services += cpu_seconds(one.pid);
    if (postgres_) used.postgres = cpu_seconds_of_family(*postgres_);
    if (broker_) used.broker = cpu_seconds(*broker_);
    used.driver = cpu_seconds(::getpid());
    return used;
}

std::map<std::string, double> machine::peak_rss_mib(fleet const& services) const
{
    std::map<std::string, double> peaks;
    for (auto const& one : services.processes()) peaks[one.name] = skald_bench::peak_rss_mib(one.pid);
    if (broker_) peaks["broker"] = skald_bench::peak_rss_mib(*broker_);
    return peaks;
}

double most_of_a_service(std::map<std::string, double> const& peaks)
{
    double most = 0;
    for (auto const& [name, mib] : peaks)
        if (name != "broker") most = std::max(most, mib);
    return most;
}

nlohmann::ordered_json describe_settings(bench_databases& databases, std::string const& broker_url)
{
    nlohmann::ordered_json described;
    utsname system{};
    ::uname(&system);
    described["machine"] = {{"cores", std::thread::hardware_concurrency()}, {"kernel", system.release}};
    for (auto const& row : ask(databases.at(orders), sql::settings))
        described["postgres"][row[0].c_str()] = row[1].c_str();
    described["broker"] = {{"version", version_of_broker(broker_url)},
                           {"queues", "quorum"},
                           {"messages", "persistent, mandatory, confirmed"}};
    return described;
}

}  // namespace skald_bench
