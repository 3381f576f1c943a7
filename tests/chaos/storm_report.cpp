#include "storm_report.hpp"

#include "rig/text.hpp"

#include <cstdio>
#include <fstream>
#include <numeric>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace order_storm {
namespace {

using skald::rig::grouped;

double seconds(std::chrono::milliseconds length)
{
    return static_cast<double>(length.count()) / 1'000;
}

void print_row(std::string_view name, std::string const& value, std::string_view remark = "")
{
    fmt::print("  {:<34}{:>12}  {}\n", name, value, remark);
}

int all_faults(storm_summary const& run)
{
    return std::accumulate(run.struck.begin(), run.struck.end(), 0);
}

}  // namespace

void print_report(storm_summary const& run)
{
    fmt::print("\nThe storm: {:.0f} s, seed {}, commit {}, PostgreSQL {}, {}\n\n", seconds(run.stormed), run.seed,
               run.commit, run.postgres_version, run.broker);
    for (std::size_t i = 0; i < fault_kind_count; ++i)
        print_row(name_of(static_cast<fault_kind>(i)), grouped(run.struck[i]),
                  description_of(static_cast<fault_kind>(i)));
    print_row("faults", grouped(all_faults(run)));
    fmt::print("\n");
    print_row("orders", grouped(run.orders));
    print_row("orders at another home", grouped(run.orders_elsewhere), "half of them with a deadline");
    print_row("processes that an order killed", grouped(run.killed_by_poison));
    print_row("of these orders: parked, and replayed", grouped(run.replayed));
    print_row("requests sent twice", grouped(run.sent_twice));
    print_row("requests repeated after a fault", grouped(run.asked_again));
    print_row("answers 'in flight' (409)", grouped(run.answered_in_flight));
    print_row("deliveries processed", grouped(run.deliveries));
    print_row("duplicates absorbed", grouped(run.duplicates));
    print_row("time to recover", fmt::format("{:.1f} s", seconds(run.recovered)), "from the end of the last fault");
    fmt::print("\n");
    for (auto const& one : run.outcome.figures)
        if (!one.is_sum) print_row(one.name, grouped(one.value));
    fmt::print("\n");
    for (auto const& one : run.outcome.findings) {
        print_row(one.name, grouped(one.count), one.count == 0 ? "" : "<-- WRONG");
        for (auto const& example : one.examples) fmt::print("      {}\n", example);
    }
    fmt::print("\nstorm: {} (seed {})\n", run.outcome.passed() ? "passed" : "FAILED", run.seed);
    std::fflush(stdout);
}

void write_json(storm_summary const& run, std::filesystem::path const& file)
{
    nlohmann::ordered_json faults, figures, findings;
    for (std::size_t i = 0; i < fault_kind_count; ++i)
        faults[std::string{name_of(static_cast<fault_kind>(i))}] = run.struck[i];
    for (auto const& one : run.outcome.figures) figures[one.name] = one.value;
    for (auto const& one : run.outcome.findings)
        findings[one.name] = {{"count", one.count}, {"examples", one.examples}};
    nlohmann::ordered_json const text{{"passed", run.outcome.passed()},
                                      {"seed", run.seed},
                                      {"commit", run.commit},
                                      {"postgresql", run.postgres_version},
                                      {"broker", run.broker},
                                      {"storm_seconds", seconds(run.stormed)},
                                      {"recovery_seconds", seconds(run.recovered)},
                                      {"faults", faults},
                                      {"orders", run.orders},
                                      {"orders_elsewhere", run.orders_elsewhere},
                                      {"processes_killed_by_poison", run.killed_by_poison},
                                      {"deadly_orders_replayed", run.replayed},
                                      {"requests_sent_twice", run.sent_twice},
                                      {"requests_repeated_after_a_fault", run.asked_again},
                                      {"answers_in_flight", run.answered_in_flight},
                                      {"deliveries_processed", run.deliveries},
                                      {"duplicates_absorbed", run.duplicates},
                                      {"figures", figures},
                                      {"findings", findings}};
    std::ofstream out{file};
    out << text.dump(2) << '\n';
    if (!out.flush()) throw std::runtime_error{"can't write " + file.string()};
}

}  // namespace order_storm
