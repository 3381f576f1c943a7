// order_storm: the order saga under load while everything around it breaks, and a verdict from the databases.
//
// Start with storm.cpp, which shows the whole course in order; faults.cpp has the list of faults.
#include "settings.hpp"
#include "storm.hpp"
#include "storm_report.hpp"

#include "rig/signals.hpp"

#include <cstdio>
#include <exception>
#include <string_view>

#include <fmt/format.h>

namespace {

int run(order_storm::settings const& chosen)
{
    skald::rig::signals const interruptions;
    fmt::print("a storm of {:g} minutes, {:g} orders a second, seed {}\n", chosen.minutes, chosen.orders_per_second,
               chosen.seed);
    std::fflush(stdout);
    auto const summary = order_storm::storm{chosen, interruptions}.run();
    order_storm::print_report(summary);
    if (!chosen.json.empty()) order_storm::write_json(summary, chosen.json);
    return summary.outcome.passed() ? 0 : 1;
}

}  // namespace

int main(int argument_count, char** arguments)
try {
    for (int i = 1; i < argument_count; ++i)
        if (std::string_view{arguments[i]} == "--help" || std::string_view{arguments[i]} == "-h") {
            fmt::print("{}", order_storm::usage_text);
            return 0;
        }
    return run(order_storm::parse_settings(argument_count, arguments));
}
catch (skald::rig::usage_error const& error) {
    fmt::print(stderr, "order_storm: {}\n", error.what());
    return 2;
}
catch (skald::rig::interrupted const& how) {
    fmt::print(stderr, "storm: interrupted, all services have been stopped\n");
    return 128 + how.signal;
}
catch (std::exception const& error) {
    fmt::print("storm: FAILED: {}\n", error.what());
    return 1;
}
