// The shop's lines in the table, and in the JSON.
#include "report.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using json = nlohmann::ordered_json;

contention_counts sum(std::array<contention_counts, 3> const& of)
{
    contention_counts all;
    for (auto const& one : of) {
        all.commits += one.commits;
        all.rollbacks += one.rollbacks;
        all.deadlocks += one.deadlocks;
        all.tried_again += one.tried_again;
    }
    return all;
}

json as_json(contention_counts const& t)
{
    return {
        {"commits", t.commits}, {"rollbacks", t.rollbacks}, {"deadlocks", t.deadlocks}, {"tried_again", t.tried_again}};
}

}  // namespace

void report::begin_shop()
{
    fmt::print("{:<50}{:>9}{:>9}{:>9}{:>9} |{:^40}{:>9} |{:^27} |{:>8}\n", "", "sagas", "", "", "",
               "deadlocks,    in the          records    ", "commits", "processor, ms a saga", "RSS MiB");
    fmt::print("{:<50}{:>9}{:>9}{:>9}{:>9} |{:>10}{:>10}{:>10}{:>10}{:>9} |{:>9}{:>9}{:>9} |{:>8}\n", "shared rows",
               "a second", "seconds", "sagas", "ended", "all", "first s", "rollbacks", "retried", "a saga", "services",
               "postgres", "broker", "at most");
}

void report::add(shop_figures const& m)
{
    auto const all = sum(m.contentions);
    auto const each = [&](double amount) { return m.ended > 0 ? amount / static_cast<double>(m.ended) : 0; };
    fmt::print("{:<40}{:<10}{:>9.0f}{:>9.1f}{:>9}{:>9} |{:>10}{:>10}{:>10}{:>10}{:>9.2f} |{:>9.2f}{:>9.2f}{:>9.2f} |"
               "{:>8.1f}\n",
               m.asked.label, name_of(m.asked.who), m.per_second, m.seconds, m.sagas, m.ended, all.deadlocks,
               m.first_deadlocks, all.rollbacks, all.tried_again, each(static_cast<double>(all.commits)),
               each(m.cpu.services * 1'000), each(m.cpu.postgres * 1'000), each(m.cpu.broker * 1'000),
               most_of_a_service(m.peak_rss_mib));
    std::fflush(stdout);
    json databases = json::object();
    for (std::size_t i = 0; i < m.contentions.size(); ++i)
        databases[service_names.at(i)] = as_json(m.contentions.at(i));
    scenario()["phases"].push_back({{"who", name_of(m.asked.who)},
                                    {"label", m.asked.label},
                                    {"processes", m.asked.processes},
                                    {"shared", m.asked.shared},
                                    {"customers", m.asked.shared ? m.asked.customers : m.sagas},
                                    {"skus", m.asked.shared ? m.asked.skus : m.sagas},
                                    {"sagas", m.sagas},
                                    {"declined", m.declined},
                                    {"broke", m.broke},
                                    {"ended", m.ended},
                                    {"seconds", m.seconds},
                                    {"sagas_per_second", m.per_second},
                                    {"deadlocks_in_first_second", m.first_deadlocks},
                                    {"commits_per_saga", each(static_cast<double>(all.commits))},
                                    {"all", as_json(all)},
                                    {"databases", std::move(databases)},
                                    {"cpu_seconds",
                                     {{"services", m.cpu.services},
                                      {"postgres", m.cpu.postgres},
                                      {"broker", m.cpu.broker},
                                      {"driver", m.cpu.driver}}},
                                    {"peak_rss_mib", m.peak_rss_mib}});
}

void report::add(transport_figures const& m)
{
    auto const* const over = m.who == implementation::kafka   ? "kafka"
                             : m.who == implementation::inbox ? "postgres"
                                                              : "rabbitmq";
    auto const ms = [&](double seconds) {
        return m.sagas > 0 ? seconds * 1'000 / (m.per_second * chosen_.seconds) : 0.0;
    };
    fmt::print("{:<14}{:>10} |{:>9.0f} |{:>8.1f}{:>8.1f} |{:>9.2f}{:>9.2f}{:>9.2f} |{:>8.1f}\n", over, m.under_way,
               m.per_second, m.completed_ms.p50, m.completed_ms.p99, ms(m.cpu.services), ms(m.cpu.postgres),
               ms(m.cpu.broker), m.wal_bytes_a_saga / 1'024);
    std::fflush(stdout);
    scenario()["phases"].push_back(
        {{"who", over},
         {"under_way", m.under_way},
         {"sagas", m.sagas},
         {"sagas_per_second", m.per_second},
         {"completed_ms", {{"p50", m.completed_ms.p50}, {"p99", m.completed_ms.p99}, {"max", m.completed_ms.max}}},
         {"cpu_seconds", {{"services", m.cpu.services}, {"postgres", m.cpu.postgres}, {"broker", m.cpu.broker}}},
         {"wal_bytes_a_saga", m.wal_bytes_a_saga}});
}

void report::begin_transports()
{
    fmt::print("{:<14}{:>10} |{:>9} |{:^16} |{:^27} |{:>8}\n{:<14}{:>10} |{:>9} |{:>8}{:>8} |{:>9}{:>9}{:>9} |{:>8}\n",
               "", "", "sagas", "completed, ms", "processor, ms a saga", "WAL KiB", "", "under way", "a second", "p50",
               "p99", "services", "postgres", "broker", "a saga");
}

}  // namespace skald_bench
