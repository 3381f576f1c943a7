// A counter and a gauge, as cheap as they can be: an atomic number of their own, in the struct of whoever counts.
//
// What counts knows neither names nor labels: those are added when somebody asks (metrics/exposition.hpp). The
// library's own counters live behind a family with a map and a mutex, and add to a double in a loop; see
// docs/adr/0037-metrics-are-plain-numbers.md.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace skald::metrics {

/// Threads: any.
class counter
{
public:
    void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
    std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> value_{};
};

/// Threads: any.
class gauge
{
public:
    void set(double value) { value_.store(value, std::memory_order_relaxed); }
    double value() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<double> value_{};
};

/// A counter for each value of an enum whose values are 0, 1, 2 ... `size - 1`.
template <class Enum, std::size_t size>
class counters_by
{
public:
    counter& operator[](Enum which) { return all_.at(static_cast<std::size_t>(which)); }
    counter const& operator[](Enum which) const { return all_.at(static_cast<std::size_t>(which)); }
    std::array<counter, size> const& all() const { return all_; }

private:
    std::array<counter, size> all_;
};

}  // namespace skald::metrics
