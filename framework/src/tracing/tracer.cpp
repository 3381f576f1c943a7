#include "tracing/tracer.hpp"

#include <algorithm>
#include <random>

namespace skald::tracing {
namespace {

constexpr std::size_t text_bytes_max = 1'000;

std::mt19937_64& random_numbers()
{
    thread_local std::mt19937_64 engine{[] {
        std::random_device device;
        std::seed_seq seed{device(), device(), device(), device()};
        return std::mt19937_64{seed};
    }()};
    return engine;
}

// Never zeros alone, which would be invalid.
template <std::size_t Size>
void fill(std::array<std::uint8_t, Size>& bytes)
{
    do
        for (std::size_t n = 0; n < Size; n += 8) {
            auto number = random_numbers()();
            for (std::size_t i = n; i < n + 8; ++i, number >>= 8U) bytes[i] = static_cast<std::uint8_t>(number);
        }
    while (std::ranges::all_of(bytes, [](auto byte) { return byte == 0; }));
}

std::int64_t now_ns()
{
    auto const since_1970 = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
}

}  // namespace

core::span_context tracer::child_of(core::span_context const& parent)
{
    auto child = parent;
    fill(child.span_id);
    return child;
}

core::span_context tracer::begin_trace() const
{
    core::span_context first;
    fill(first.trace_id);
    fill(first.span_id);
    first.sampled = std::uniform_real_distribution<>{}(random_numbers()) < options_.ratio;
    return first;
}

void tracer::finish(span&& ended) noexcept
try {
    std::lock_guard const lock{mutex_};
    if (finished_.size() >= options_.waiting_max) {
        count_dropped(1);
        return;
    }
    finished_.push_back(std::move(ended));
    if (finished_.size() == options_.waiting_max / 16) changed_.notify_one();
}
catch (std::exception const&) {
    return;  // no memory for a span
}

std::vector<span> tracer::take(std::size_t max, std::chrono::milliseconds longest)
{
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, longest, [&] { return is_woken_ || finished_.size() >= max; });
    is_woken_ = false;
    auto const count = static_cast<std::ptrdiff_t>(std::min(max, finished_.size()));
    std::vector<span> taken{std::make_move_iterator(finished_.begin()),
                            std::make_move_iterator(finished_.begin() + count)};
    finished_.erase(finished_.begin(), finished_.begin() + count);
    return taken;
}

void tracer::pause(std::chrono::milliseconds time)
{
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, time, [&] { return is_woken_; });
    is_woken_ = false;
}

void tracer::wake()
{
    std::lock_guard const lock{mutex_};
    is_woken_ = true;
    changed_.notify_one();
}

open_span::open_span(tracer& of, core::span_context self, std::string name, span_kind kind) : tracer_{&of}
{
    span_.self = self;
    span_.name = std::move(name);
    span_.kind = kind;
    span_.began_ns = now_ns();
}

open_span::open_span(open_span&& other) noexcept
    : tracer_{std::exchange(other.tracer_, nullptr)}, span_{std::move(other.span_)}
{}

open_span& open_span::operator=(open_span&& other) noexcept
{
    if (this == &other) return *this;
    end();
    tracer_ = std::exchange(other.tracer_, nullptr);
    span_ = std::move(other.span_);
    return *this;
}

open_span open_span::child(std::string_view name, span_kind kind) const
{
    if (tracer_ == nullptr) return {};
    open_span made{*tracer_, tracer::child_of(span_.self), std::string{name}, kind};
    made.set_parent(span_.self, span_.tracestate);
    return made;
}

open_span& open_span::set_parent(core::span_context const& parent, std::string_view tracestate)
{
    if (tracer_ == nullptr) return *this;
    span_.parent = parent.span_id;
    span_.tracestate = tracestate;
    return *this;
}

open_span& open_span::set(std::string_view name, std::string_view value)
{
    if (tracer_ != nullptr) span_.attributes.push_back({name, std::string{value.substr(0, text_bytes_max)}});
    return *this;
}

open_span& open_span::set(std::string_view name, std::int64_t value)
{
    if (tracer_ != nullptr) span_.attributes.push_back({name, value});
    return *this;
}

open_span& open_span::link(core::span_context const& cause)
{
    if (tracer_ != nullptr) span_.links.push_back(cause);
    return *this;
}

void open_span::rename(std::string name)
{
    if (tracer_ != nullptr) span_.name = std::move(name);
}

void open_span::fail(std::string_view error)
{
    if (tracer_ != nullptr) span_.error = error.empty() ? "failed" : error.substr(0, text_bytes_max);
}

void open_span::recover()
{
    span_.error.clear();
}

void open_span::end() noexcept
{
    if (tracer_ == nullptr) return;
    span_.ended_ns = std::max(now_ns(), span_.began_ns);  // the clock may have been set back
    std::exchange(tracer_, nullptr)->finish(std::move(span_));
}

open_span begin_span(tracer* of, trace_context& cause, std::string_view name, span_kind kind)
{
    if (of == nullptr) return {};
    auto const parent = core::parse_traceparent(cause.traceparent);
    if (parent && !parent->sampled) return {};
    auto const self = parent ? tracer::child_of(*parent) : of->begin_trace();
    open_span made;
    if (self.sampled) {
        made = open_span{*of, self, std::string{name}, kind};
        if (parent) made.set_parent(*parent, cause.tracestate);
    }
    cause.traceparent = self.traceparent();
    return made;
}

}  // namespace skald::tracing
