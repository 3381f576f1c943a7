// One measurement: start the services, put them under load, read the meters, stop them, check what they left.
#pragma once

#include "fleet.hpp"
#include "load.hpp"
#include "meter.hpp"
#include "percentiles.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace skald::rig {
class http_client;
}

namespace skald_bench {

/// What every measurement needs.
struct bench
{
    options const& chosen;
    skald::rig::signals const& interruptions;
};

struct phase_request
{
    implementation who{implementation::framework};
    std::string label;
    bool ordered_keys{true};
    bool tcp{};
    int seconds{};  // 0: as the options say
    bool hold_snapshot{};
    std::map<std::string, nlohmann::ordered_json> about{};  // for the report: "rows": 1000000
};

struct phase_figures
{
    phase_request asked;
    std::int64_t sagas{};  // of the whole phase
    std::int64_t ended_in_window{};
    double window_seconds{};
    double per_second{};
    std::vector<double> per_second_by_part;  // tenths of the window
    server_counts counts;                    // of the whole phase
    cpu_split cpu;                           // of the window
    std::map<std::string, double> peak_rss_mib;
};

/// Closed loop: as many sagas as the options say are under way all the time.
phase_figures run_phase(bench const& b, bench_databases& databases, phase_request const& asked);

/// Over HTTP. Throws unless it is accepted.
void place_order(skald::rig::http_client& client, std::string const& key);

struct latency_figures
{
    double rate{};  // 0: one saga at a time, the next one when it has completed
    std::int64_t sagas{};
    percentiles answer_ms, completed_ms;
    double achieved_per_second{};
};

/// Over HTTP, on the framework: one saga after the other.
latency_figures run_alone(bench const& b, bench_databases& databases, implementation who);

/// Open loop, over HTTP, on the framework.
latency_figures run_at_rate(bench const& b, bench_databases& databases, implementation who, double rate);

struct backlog_figures
{
    implementation who{};
    std::int64_t messages{};
    double seconds{};
    double first_quarter_per_second{}, last_quarter_per_second{};
    std::map<std::string, double> peak_rss_mib;
};

/// The relay of one service alone, with a full outbox.
backlog_figures run_backlog(bench const& b, bench_databases& databases, implementation who);

struct message_figures
{
    std::string label;
    std::int64_t messages{};
    double seconds{}, per_second{};  // from the first record to the last
    double first_quarter_per_second{}, last_quarter_per_second{};
};

/// A queue full of messages, then a service that handles them: with its step, or with its message handler.
message_figures run_messages(bench const& b, bench_databases& databases, implementation who, bool by_handler);

/// How a count grew: seconds, and what was counted by then.
using growth = std::vector<std::pair<double, std::int64_t>>;

/// Of the first quarter of so many, from when something was counted first: before that the service started.
double first_quarter(growth const& series, std::int64_t all);

/// Between the moments at which these counts were reached; 0 if that is too short to tell.
double rate_between(growth const& series, std::int64_t from, std::int64_t to);

}  // namespace skald_bench
