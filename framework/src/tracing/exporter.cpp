#include "tracing/exporter.hpp"

#include "core/backoff.hpp"
#include "tracing/http_post.hpp"
#include "tracing/otlp_json.hpp"

#include <algorithm>
#include <random>
#include <stdexcept>

namespace skald::tracing {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr std::string_view scheme = "http://";
constexpr auto last_time = 2s;
constexpr auto dropped_silence = 60s;

// What the specification says may be sent again; any other refusal would only be repeated.
bool is_worth_a_retry(int status)
{
    return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

collector_address parse_endpoint(std::string_view endpoint)
{
    constexpr auto right = "a collector's OTLP/HTTP endpoint: http://host:port, such as http://127.0.0.1:4318";
    if (!endpoint.starts_with(scheme)) throw std::invalid_argument{right};
    auto rest = endpoint.substr(scheme.size());
    auto const slash = std::min(rest.find('/'), rest.size());
    auto path = std::string{rest.substr(slash)};
    rest = rest.substr(0, slash);
    while (path.ends_with('/')) path.pop_back();
    std::string port{"4318"};
    if (auto const colon = rest.rfind(':'); colon != std::string_view::npos && !rest.ends_with(']')) {
        port = rest.substr(colon + 1);
        rest = rest.substr(0, colon);
    }
    bool const is_number =
        !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
    if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
    constexpr std::string_view in_a_host{"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:"};
    bool const is_host = !rest.empty() && rest.find_first_not_of(in_a_host) == std::string_view::npos;
    bool const is_path = std::ranges::all_of(path, [](char c) { return c > 0x20 && c < 0x7f && c != '?' && c != '#'; });
    if (!is_host || !is_path || !is_number || std::stoi(port) > 65'535) throw std::invalid_argument{right};
    return {std::string{rest}, port, path + "/v1/traces"};
}

exporter::exporter(exporter_options options, tracer& spans, core::logger& log)
    : options_{std::move(options)}, to_{parse_endpoint(options_.endpoint)}, spans_{spans}, log_{log}, thread_{[this] {
          run();
      }}
{}

exporter::~exporter()
{
    until_ = clock::now() + last_time;
    is_stopping_ = true;
    spans_.wake();
}

void exporter::run()
{
    core::backoff const backoff{1s, 30s};
    std::mt19937_64 random{std::random_device{}()};
    for (int failures = 0; !is_stopping_;) {
        if (waiting_.empty()) take(options_.every);
        if (waiting_.empty()) continue;
        if (send(options_.timeout)) failures = 0;
        else spans_.pause(backoff.wait(++failures, random));
        log_dropped();
    }
    while (!is_over()) {
        if (waiting_.empty()) take(0ms);
        if (waiting_.empty() || !send(1s)) return;
    }
}

bool exporter::is_over() const
{
    return is_stopping_ && clock::now() >= until_;
}

void exporter::take(std::chrono::milliseconds longest)
{
    auto const taken = spans_.take(options_.batch_max, longest);
    if (taken.empty()) return;
    waiting_ = export_request(options_.service, taken);
    waiting_spans_ = taken.size();
}

// False if it is to be sent again.
bool exporter::send(std::chrono::milliseconds timeout)
{
    auto const answer = post_json(to_, waiting_, timeout, [this] { return is_over(); });
    bool const is_taken = answer.status >= 200 && answer.status < 300;
    if (is_taken) log_state({});
    else log_state(answer.status == 0 ? answer.error : "the collector answers " + std::to_string(answer.status));
    if (!is_taken && is_worth_a_retry(answer.status)) return false;
    is_taken ? spans_.count_exported(waiting_spans_) : spans_.count_dropped(waiting_spans_);
    waiting_.clear();
    return true;
}

void exporter::log_dropped()
{
    auto const dropped = spans_.dropped();
    if (dropped == dropped_told_ || clock::now() < silent_until_) return;
    silent_until_ = clock::now() + dropped_silence;
    log_.warning("traces.dropped", {{"spans", dropped - std::exchange(dropped_told_, dropped)}});
}

// Once per change, not once per request.
void exporter::log_state(std::string const& error)
{
    if (error == last_error_) return;
    last_error_ = error;
    if (error.empty()) log_.info("traces.available", {});
    else log_.warning("traces.not_sent", {{"endpoint", options_.endpoint}, {"error", error}});
}

}  // namespace skald::tracing
