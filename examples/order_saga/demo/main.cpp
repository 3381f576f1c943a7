// order_demo: the order saga under load, duplicates and kills, and a verdict from the databases.
//
// Start with director.cpp, which runs the whole demonstration in order; verdict.cpp shows what is checked, and how.
#include <cstdio>
#include <exception>
#include <string_view>

#include <fmt/format.h>

#include "director.hpp"
#include "options.hpp"
#include "report.hpp"
#include "rig/signals.hpp"
#include "rig/text.hpp"

namespace {

enum exit_code {
    all_well = 0,
    something_wrong = 1,
    usage = 2,
    ended_by_signal = 128,  // plus its number
};

int run(order_demo::options const& chosen)
{
    order_demo::signals const interruptions;
    fmt::print("{} orders from {} clients, seed {}\n", order_demo::grouped(chosen.orders), chosen.clients, chosen.seed);
    std::fflush(stdout);
    auto const summary = order_demo::director{chosen, interruptions}.run();
    order_demo::print_report(summary);
    if (!chosen.json.empty()) order_demo::write_json(summary, chosen.json);
    return summary.outcome.passed() ? all_well : something_wrong;
}

}  // namespace

int main(int argument_count, char** arguments)
try {
    for (int i = 1; i < argument_count; ++i)
        if (std::string_view{arguments[i]} == "--help" || std::string_view{arguments[i]} == "-h") {
            fmt::print("{}", order_demo::usage_text);
            return all_well;
        }
    return run(order_demo::parse_options(argument_count, arguments));
}
catch (order_demo::usage_error const& error) {
    fmt::print(stderr, "order_demo: {}\n", error.what());
    return usage;
}
catch (order_demo::interrupted const& how) {
    fmt::print(stderr, "demo: interrupted, all services have been stopped\n");
    return ended_by_signal + how.signal;
}
catch (std::exception const& error) {
    fmt::print("demo: FAILED: {}\n", error.what());
    return something_wrong;
}
