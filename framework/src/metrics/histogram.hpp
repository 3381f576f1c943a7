// A histogram over fixed bounds, without a lock: a reader may see an observation in its bucket and not yet in the sum.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace skald::metrics {

/// From half a millisecond to half a minute: what a transaction, a step or a confirm may take.
inline constexpr std::array<double, 15> time_bounds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                    0.25,   0.5,   1,      2.5,   5,    10,    30};

/// Sagas, and calls to other systems, may also take hours.
inline constexpr std::array<double, 15> saga_bounds{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                    2.5,   5,    10,    30,   60,  600,  3600};

/// How many deliveries share a transaction.
inline constexpr std::array<double, 8> size_bounds{1, 2, 4, 8, 16, 32, 64, 128};

/// What a histogram held at one moment. `counts` has one more than `bounds`: what is above the last of them.
struct distribution
{
    std::span<double const> bounds;
    std::vector<std::uint64_t> counts;
    double sum{};
};

/// Threads: any.
template <std::size_t size>
class histogram
{
public:
    /// `bounds` must outlive it: one of those above.
    explicit histogram(std::array<double, size> const& bounds) : bounds_{bounds} {}

    void observe(double value)
    {
        std::size_t n = 0;
        while (n < size && value > bounds_[n]) ++n;
        counts_[n].fetch_add(1, std::memory_order_relaxed);
        sum_.fetch_add(value, std::memory_order_relaxed);
    }

    void observe(std::chrono::steady_clock::duration took) { observe(std::chrono::duration<double>(took).count()); }

    distribution now() const
    {
        distribution read{bounds_, {}, sum_.load(std::memory_order_relaxed)};
        for (auto const& one : counts_) read.counts.push_back(one.load(std::memory_order_relaxed));
        return read;
    }

private:
    std::span<double const, size> bounds_;
    std::array<std::atomic<std::uint64_t>, size + 1> counts_{};
    std::atomic<double> sum_{};
};

struct time_histogram : histogram<time_bounds.size()>
{
    time_histogram() : histogram{time_bounds} {}
};

/// Observes how long it has lived when it ends, also if something is thrown.
class timed
{
public:
    explicit timed(time_histogram& to) : to_{to} {}
    ~timed() { to_.observe(std::chrono::steady_clock::now() - began_); }
    timed(timed const&) = delete;
    timed& operator=(timed const&) = delete;

private:
    time_histogram& to_;
    std::chrono::steady_clock::time_point const began_{std::chrono::steady_clock::now()};
};

struct size_histogram : histogram<size_bounds.size()>
{
    size_histogram() : histogram{size_bounds} {}
};

}  // namespace skald::metrics
