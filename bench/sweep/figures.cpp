#include "figures.hpp"

#include "text.hpp"

#include <cstdio>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sweep_bench {
namespace {

using json = nlohmann::ordered_json;

void print_row(std::string const& name, percentiles const& answers, percentiles const& ends, std::string const& remark)
{
    fmt::print("{:<18}{:>8} |{:>8.1f}{:>8.1f}{:>8.1f} |{:>8.1f}{:>8.1f}{:>8.1f} |{}\n", name, answers.count,
               answers.p50, answers.p95, answers.p99, ends.p50, ends.p95, ends.p99, remark);
}

json to_json(percentiles const& s)
{
    return {{"count", s.count}, {"p50", s.p50}, {"p95", s.p95}, {"p99", s.p99}, {"max", s.max}};
}

double per_second(swept_sagas const& swept)
{
    return swept.seconds > 0 ? swept.sagas / swept.seconds : 0;
}

}  // namespace

void print_head(bench_figures const& bench)
{
    fmt::print("\n{:g} orders a second for {} s in each phase, {} old sagas, {} cores, PostgreSQL {}, commit {}\n\n",
               bench.orders_per_second, bench.seconds, order_demo::grouped(bench.old_sagas), bench.cores,
               bench.postgres_version, bench.commit);
    fmt::print("{:<18}{:>8} |{:^24} |{:^24} | {}\n", "", "", "answer, ms", "saga completed, ms", "swept");
    fmt::print("{:<18}{:>8} |{:>8}{:>8}{:>8} |{:>8}{:>8}{:>8} |\n", "phase", "orders", "p50", "p95", "p99", "p50",
               "p95", "p99");
    std::fflush(stdout);
}

void print_phase(phase_figures const& phase)
{
    auto const& swept = phase.swept;
    auto const what = swept ? fmt::format(" {} in {:.1f} s, {:.0f} a second", order_demo::grouped(swept->sagas),
                                          swept->seconds, per_second(*swept))
                            : std::string{};
    print_row(phase.name, phase.answers, phase.ends, what);
    if (swept) print_row("  while it swept", swept->answers, swept->ends, {});
    std::fflush(stdout);
}

void write_json(bench_figures const& bench, std::filesystem::path const& file)
{
    json phases = json::array();
    for (auto const& phase : bench.phases) {
        json one{{"name", phase.name},
                 {"orders", phase.orders},
                 {"answer_ms", to_json(phase.answers)},
                 {"completed_ms", to_json(phase.ends)}};
        if (phase.swept)
            one["swept"] = {{"sagas", phase.swept->sagas},
                            {"seconds", phase.swept->seconds},
                            {"per_second", per_second(*phase.swept)},
                            {"answer_ms_meanwhile", to_json(phase.swept->answers)},
                            {"completed_ms_meanwhile", to_json(phase.swept->ends)}};
        phases.push_back(std::move(one));
    }
    json const document{{"commit", bench.commit},     {"postgres", bench.postgres_version},
                        {"cores", bench.cores},       {"orders_per_second", bench.orders_per_second},
                        {"seconds", bench.seconds},   {"old_sagas", bench.old_sagas},
                        {"phases", std::move(phases)}};
    std::ofstream out{file};
    out << document.dump(2) << '\n';
    out.flush();
    if (!out) throw std::runtime_error{"can't write the figures to " + file.string()};
}

}  // namespace sweep_bench
