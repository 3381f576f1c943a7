// Begins and ends spans, and keeps the finished ones until the exporter takes them. It never blocks what it measures:
// what finds no room is dropped and counted.
#pragma once

#include "tracing/span.hpp"

#include <skald/trace.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::tracing {

struct tracer_options
{
    double ratio{1.0};  // of the traces that begin here, how many are sampled; of others, the parent decides
    std::size_t waiting_max{8'192};            // finished spans that wait for the exporter
    std::string messaging_system{"rabbitmq"};  // that spans about messages name
};

/// Threads: any. It outlives every span that it began.
class tracer
{
public:
    explicit tracer(tracer_options options) : options_{std::move(options)} {}

    std::string const& messaging_system() const { return options_.messaging_system; }

    /// A new position in the trace of `parent`, sampled as that is.
    static core::span_context child_of(core::span_context const& parent);

    /// The first position of a new trace.
    core::span_context begin_trace() const;

    /// For the exporter. Drops it if too many wait.
    void finish(span&& ended) noexcept;

    /// Takes at most `max` finished spans; waits up to `longest` for the first ones, or until wake().
    std::vector<span> take(std::size_t max, std::chrono::milliseconds longest);

    /// Waits that long, or until wake().
    void pause(std::chrono::milliseconds time);

    /// Ends the current wait of take() or pause(), or the next one.
    void wake();

    /// What became of finished spans: a collector took them; or none did, for want of room or because it refused them.
    void count_exported(std::size_t spans) { exported_ += spans; }
    void count_dropped(std::size_t spans) { dropped_ += spans; }
    std::uint64_t exported() const { return exported_; }
    std::uint64_t dropped() const { return dropped_; }

private:
    tracer_options const options_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<span> finished_;
    std::atomic<std::uint64_t> exported_{}, dropped_{};
    bool is_woken_{};
};

/// A span that has begun, or nothing: on an object of the default constructor every function does nothing, so that what
/// is measured need not know whether it is.
/// Threads: one at a time.
class open_span
{
public:
    open_span() = default;
    open_span(tracer& of, core::span_context self, std::string name, span_kind kind);
    open_span(open_span&& other) noexcept;
    open_span& operator=(open_span&& other) noexcept;
    ~open_span() { end(); }

    explicit operator bool() const { return tracer_ != nullptr; }

    core::span_context const& context() const { return span_.self; }

    /// A span of the same service within this one. Nothing within nothing.
    open_span child(std::string_view name, span_kind kind = span_kind::internal) const;

    open_span& set_parent(core::span_context const& parent, std::string_view tracestate);
    open_span& set(std::string_view name, std::string_view value);
    open_span& set(std::string_view name, std::int64_t value);
    open_span& link(core::span_context const& cause);
    void rename(std::string name);
    void fail(std::string_view error);
    void recover();  // what failed was tried again, and went well

    /// Hands it to the exporter; from now on it is nothing.
    void end() noexcept;

private:
    tracer* tracer_{};
    span span_;
};

/// A span for work that comes from elsewhere. Its parent is in `cause`; without one, a new trace begins. Then `cause`
/// is what this work passes on: the span itself; or, if it is not sampled, a trace that is not, so that no later part
/// of the same work decides anew. Nothing, with `cause` as it was, if `of` is null.
open_span begin_span(tracer* of, trace_context& cause, std::string_view name, span_kind kind);

}  // namespace skald::tracing
