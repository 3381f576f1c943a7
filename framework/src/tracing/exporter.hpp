// Sends finished spans to a collector, by OTLP/HTTP in JSON: https://opentelemetry.io/docs/specs/otlp/
#pragma once

#include "core/log.hpp"
#include "tracing/tracer.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace skald::tracing {

struct exporter_options
{
    std::string endpoint;  // of the collector: "http://127.0.0.1:4318"
    std::string service;
    std::chrono::milliseconds every{1'000};     // sooner if there are many
    std::chrono::milliseconds timeout{10'000};  // of one request
    std::size_t batch_max{512};
};

/// Where spans go. `path` is "/v1/traces" below the endpoint's own.
struct collector_address
{
    std::string host;
    std::string port;
    std::string path;
};

/// Throws std::invalid_argument, saying what an endpoint is, for anything but `http://host[:port][/path]`.
collector_address parse_endpoint(std::string_view endpoint);

/// A thread of its own. Spans that the collector does not take are sent again while they are the oldest batch, and what
/// finds no room meanwhile is dropped and counted.
class exporter
{
public:
    /// `spans` and `log` must outlive it.
    exporter(exporter_options options, tracer& spans, core::logger& log);

    /// Sends what is left, for at most two seconds but for a look-up of the collector's name.
    ~exporter();

private:
    void run();
    void take(std::chrono::milliseconds longest);
    bool send(std::chrono::milliseconds timeout);
    bool is_over() const;
    void log_dropped();
    void log_state(std::string const& error);

    exporter_options const options_;
    collector_address const to_;
    tracer& spans_;
    core::logger& log_;
    std::atomic<bool> is_stopping_{};
    std::chrono::steady_clock::time_point until_;  // once it is stopping: then it gives up
    std::string waiting_;                          // a request that the collector has yet to take
    std::size_t waiting_spans_{};                  // in it
    std::string last_error_;
    std::uint64_t dropped_told_{};
    std::chrono::steady_clock::time_point silent_until_{};  // about drops
    std::jthread thread_;                                   // last: it uses everything above
};

}  // namespace skald::tracing
