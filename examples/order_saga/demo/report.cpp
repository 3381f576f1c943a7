#include "report.hpp"

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rig/text.hpp"

namespace order_demo {
namespace {

void print_row(std::string const& name, std::string const& value, char const* remark = "")
{
    fmt::print("  {:<36}{:>14}{}\n", name, value, remark);
}

void print_findings(verdict const& outcome)
{
    for (auto const& one : outcome.findings) {
        print_row(one.name, grouped(one.count), one.count == 0 ? "" : "  <-- WRONG");
        for (auto const& example : one.examples) fmt::print("      {}\n", example);
        if (auto const shown = static_cast<std::int64_t>(one.examples.size()); shown > 0 && one.count > shown)
            fmt::print("      and {} more\n", grouped(one.count - shown));
    }
}

void print_sums(verdict const& outcome)
{
    auto const cents = [&](char const* name) { return money(outcome.figure_named(name)); };
    auto const pieces = [&](char const* name) { return grouped(outcome.figure_named(name)); };
    fmt::print("  money: {} before; {} after + {} charged - {} refunded = {}\n", cents("money before"),
               cents("money after"), cents("charged"), cents("refunded"),
               money(outcome.figure_named("money after") + outcome.figure_named("charged") -
                     outcome.figure_named("refunded")));
    fmt::print("  stock: {} before; {} after + {} shipped = {}\n\n", pieces("stock before"), pieces("stock after"),
               pieces("shipped"), grouped(outcome.figure_named("stock after") + outcome.figure_named("shipped")));
}

std::string what_is_wrong(verdict const& outcome)
{
    std::string text;
    for (auto const& one : outcome.findings)
        if (one.count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(one.count), one.name);
    return text;
}

double in_seconds(std::chrono::milliseconds length)
{
    return static_cast<double>(length.count()) / 1'000;
}

}  // namespace

void print_report(run_summary const& run)
{
    fmt::print("\nThe verdict of the three databases, after {:.1f} s (seed {})\n\n", in_seconds(run.length), run.seed);
    for (auto const& one : run.outcome.figures)
        if (!one.is_sum) print_row(one.name, grouped(one.value));
    fmt::print("\n");
    print_sums(run.outcome);
    print_row("requests sent twice", grouped(run.disturbed.sent_twice));
    print_row("answers 'in flight' (409)", grouped(run.disturbed.answered_in_flight));
    print_row("requests repeated after a fault", grouped(run.disturbed.asked_again));
    print_row("deliveries captured", grouped(run.disturbed.captured));
    print_row("deliveries replayed", grouped(run.disturbed.replayed));
    print_row("services killed", grouped(run.disturbed.kills));
    fmt::print("\n");
    print_findings(run.outcome);
    fmt::print("\n{} orders, {} charged twice, {} lost\n", grouped(run.orders),
               grouped(run.outcome.found("charged twice")), grouped(run.outcome.found("lost")));
    if (run.orders_took)
        fmt::print("the orders took {:.1f} s, from the first to the end of the last saga\n",
                   in_seconds(*run.orders_took));
    if (run.outcome.passed()) fmt::print("demo: passed\n");
    else fmt::print("demo: FAILED: {} (seed {})\n", what_is_wrong(run.outcome), run.seed);
    std::fflush(stdout);
}

void write_json(run_summary const& run, std::filesystem::path const& file)
{
    using json = nlohmann::ordered_json;
    json figures = json::object();
    for (auto const& one : run.outcome.figures) figures[one.name] = one.value;
    json findings = json::object();
    for (auto const& one : run.outcome.findings)
        findings[one.name] = {{"count", one.count}, {"examples", one.examples}};
    json const document{
        {"passed", run.outcome.passed()},
        {"seed", run.seed},
        {"orders", run.orders},
        {"milliseconds", run.length.count()},
        {"orders_took_milliseconds", run.orders_took ? json(run.orders_took->count()) : json(nullptr)},
        {"figures", figures},
        {"disturbances",
         {{"requests sent twice", run.disturbed.sent_twice},
          {"answers in flight", run.disturbed.answered_in_flight},
          {"requests repeated after a fault", run.disturbed.asked_again},
          {"deliveries captured", run.disturbed.captured},
          {"deliveries replayed", run.disturbed.replayed},
          {"services killed", run.disturbed.kills}}},
        {"findings", findings},
    };
    std::ofstream out{file};
    out << document.dump(2) << '\n';
    out.flush();
    if (!out) throw std::runtime_error(fmt::format("cannot write the figures to {}", file.string()));
}

}  // namespace order_demo
