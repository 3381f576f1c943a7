// The publish loop: sends what its source gives it, and reports the outcome of each message back to the source.
//
// It publishes first and its source deletes afterwards, so that a crash in between publishes twice and never zero
// times, and the guard absorbs the second. A process has two, each with its own thread and broker connection: one for
// what was committed a moment ago, and one, the relay, for what is due in the table. So a backlog in the table holds up
// nothing else. See docs/adr/0018-one-publish-loop.md.
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "core/signature.hpp"
#include "metrics/publish_metrics.hpp"
#include "ports/transport.hpp"
#include "runtime/publish_source.hpp"
#include "runtime/stop_flag.hpp"
#include "tracing/tracer.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace skald::runtime {

struct publish_options
{
    std::size_t batch_max{500};
    std::chrono::milliseconds deadline{5'000};  // for the confirms; and for the last ones when it stops
    core::backoff defer{std::chrono::milliseconds{250}, std::chrono::milliseconds{15'000}};
    core::backoff defer_barred{std::chrono::milliseconds{15'000},
                               std::chrono::milliseconds{300'000}};  // of barred ones
    std::chrono::milliseconds not_sent_silence{60'000};              // per destination, after a log line about it
    core::backoff pause{};                                           // after a failure
    core::key_ring const* sign_with{};                               // null: messages are sent unsigned
    std::shared_ptr<metrics::publish_metrics> counts{std::make_shared<metrics::publish_metrics>()};
    tracing::tracer* traces{};  // for spans of what is sent; null: none
};

/// Threads: one.
class publish_loop
{
public:
    publish_loop(publish_options options, publish_source& source, ports::publisher& publisher, stop_flag const& stop,
                 core::logger& log, std::mt19937_64 random);

    /// Runs until `stop`, and then once more for what was committed last, until all of that is answered or `deadline`
    /// has passed. The caller that stops it wakes its source.
    void run();

    /// Sends until there is nothing more for now, something could not be sent, or `stop`. Returns how many rows were
    /// deleted. Throws ports::fault.
    std::size_t drain();

    /// How many messages were sent, and how many rows were deleted.
    struct moved
    {
        std::size_t sent{};
        std::size_t gone{};
    };

    /// Sends what there is, if it `polls`, waits for answers no longer than `max_wait`, and hands them to the source.
    /// Throws ports::fault.
    moved pass(std::chrono::milliseconds max_wait, bool polls = true);

private:
    using clock = publish_source::clock;

    /// What is logged about a message that can't be sent.
    struct label
    {
        int attempts{};
        std::string key;
        std::string destination;
        bool is_users{};
        bool is_reply{};
        clock::time_point sent_at{};
        tracing::open_span sending{};
    };

    /// How many could not be sent since the last line about it, and when the next one may be written.
    struct not_sent
    {
        clock::time_point silent_until{};
        std::int64_t count{};
    };

    void try_to_turn(std::chrono::milliseconds max_wait, bool polls);
    void await_answers();
    std::size_t send();
    tracing::open_span begin_send(core::message const& m) const;
    std::size_t take_answers(std::chrono::milliseconds max_wait);
    void record(ports::receipt&& receipt, clock::time_point now, publish_source::answers& answers);
    void record_unrouted(ports::receipt&& receipt, label const& what, publish_source::answers& answers);
    void pause();
    void log_availability(std::string const& reason);
    void log_now_and_then(not_sent& unreported, core::severity level, std::string_view event, label const& what,
                          int tries, std::string const& reason);
    void log_not_sent(label const& what, int tries, ports::receipt const& receipt);
    void log_unrouted(std::string const& destination, std::string const& reason);

    publish_options options_;
    publish_source& source_;
    ports::publisher& publisher_;
    stop_flag const& stop_;
    core::logger& log_;
    std::mt19937_64 random_;
    std::unordered_map<std::int64_t, label> unanswered_;  // by row
    bool is_open_{};
    bool has_failed_{};  // since drain() began
    int failures_in_a_row_{};
    clock::time_point paused_until_{};
    std::string last_error_;
    std::map<std::string, not_sent, std::less<>> not_sent_;  // by destination; by reason, if its exchange is barred
    not_sent replies_;                                       // that came back
    std::set<std::string, std::less<>> logged_unrouted_;     // destinations
};

}  // namespace skald::runtime
