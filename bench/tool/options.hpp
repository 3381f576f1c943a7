// The options of `skald-bench`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace skald_bench {

/// The scenarios, in the order in which they run.
inline constexpr char const* scenario_names[]{"shop",  "throughput", "latency", "tables", "snapshot", "backlog",
                                              "entry", "messages",   "guards",  "waits",  "calls",    "transports"};

struct options
{
    std::vector<std::string> scenarios;   // none: all
    bool baseline{};                      // the baseline in alternation with the framework, where a scenario has one
    std::vector<std::string> transports;  // in alternation over these; none: RabbitMQ
    bool only_baseline{};

    int seconds{20};  // of each measurement
    int warm_up{3};   // seconds before it
    int rounds{2};    // how often framework and baseline alternate
    int sagas{};      // a fixed number instead of a fixed time; 0: by time
    int in_flight{2'000};
    bool start_by_function{};  // skald.start() for each saga instead of its rows, many at a time

    int customers{50}, skus{40};      // of the shop
    std::vector<std::string> shared;  // numbers of both, or "none"; empty: customers and skus, then none
    double zipf{};                    // the exponent; 0: all are ordered equally often
    std::vector<int> processes{1};    // of each service of the shop
    int declined_percent{}, broke_percent{};
    int limit_seconds{120};

    std::vector<double> rates{50, 300, 1'000};
    std::vector<std::int64_t> rows{0, 1'000'000, 10'000'000};
    std::vector<std::string> keys{"random", "ordered"};
    int hold_seconds{600};
    std::int64_t backlog{1'000'000};
    std::int64_t messages{50'000};
    int connections{8};
    int waiting{10'000}, timers{100'000};     // sagas
    int over_seconds{60}, lead_seconds{240};  // of the timers: from the first to the last; before the first
    int job_seconds{600}, stopped_seconds{600}, lease_seconds{15};
    std::vector<int> under_way{1, 50};       // of the transports
    std::vector<int> callers{1, 10, 100};    // of the guards: that share a key
    std::vector<int> duplicates{1, 50, 90};  // likewise: per cent of the requests
    bool tcp{};                              // to PostgreSQL in all scenarios
    bool each{};                             // one business statement for each delivery, instead of one for a batch

    int baseline_lanes{4};
    int baseline_batch{32};

    std::string json;
    std::string svg;   // a folder
    std::string logs;  // a folder
    std::string commit{"unknown"};
    std::filesystem::path programs;       // where skald-bench-service and skald-bench-baseline are
    std::filesystem::path shop_programs;  // where order_service, payment_service and shipping_service are

    std::string database_url, broker_url;
    std::string kafka_brokers;  // where one of the transports is Kafka

    bool is_over(std::string_view transport) const;

    bool runs(std::string_view scenario) const;
};

/// What was wrong with the command line, or that there was only a text to print: the exit code.
struct end_of_program
{
    int code{};
};

/// Reads the command line, DATABASE_URL and AMQP_URL. Throws end_of_program after printing what there was to print.
options read_options(int argc, char** argv);

}  // namespace skald_bench
