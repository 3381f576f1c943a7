// What only the database knows, as it was read last, and when that was.
//
// A scrape must not wait for a database that is locked or away. So the maintenance thread reads these figures, and a
// scrape shows what it read last, with its age. What has become too old is unknown, and unknown is not shown as zero.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/histogram.hpp"

namespace skald::metrics {

/// Figures older than this are unknown.
inline constexpr std::chrono::seconds figures_age_max{60};

struct figures
{
    struct by_two
    {
        std::string first, second;  // a definition and a state; a reason and nothing; ...
        double value{};
    };

    std::vector<by_two> sagas;            // not ended, by definition and state
    std::vector<by_two> oldest_sagas;     // seconds, likewise
    std::vector<by_two> outbox_rows;      // by state
    std::vector<by_two> parked;           // by reason
    std::vector<by_two> started;          // steps that have begun and not ended, by kind and dependency
    std::vector<by_two> oldest_started;   // seconds, likewise
    std::vector<by_two> started_overdue;  // seconds, likewise
    std::vector<by_two> unknown_calls;    // by dependency
    std::vector<by_two> unsettled;        // started steps whose end can't be recorded, by step and direction
    double unrouted{};                    // messages of users that no queue was bound for
    double outbox_overdue_seconds{};      // how long the first row has been due
    std::optional<double> deadlocks{};    // of the whole database, since its statistics began
};

/// Sagas that ended while this process ran, by definition and end.
struct ended_sagas
{
    std::array<std::uint64_t, saga_bounds.size() + 1> counts{};
    double seconds{};
};
using ended_by_kind = std::map<std::pair<std::string, std::string>, ended_sagas>;

/// Threads: any.
class database_figures
{
public:
    using clock = std::chrono::steady_clock;

    struct seen
    {
        std::optional<figures> latest;
        clock::duration age{};  // before the first reading: since this began
        ended_by_kind ended;
        bool is_connected{};
    };

    void read(figures latest)
    {
        std::lock_guard const lock{mutex_};
        latest_ = std::move(latest);
        read_at_ = clock::now();
    }

    /// `bucket`: how many of saga_bounds they exceed.
    void add_ended(std::string const& definition, std::string const& end, std::size_t bucket, std::uint64_t count,
                   double seconds)
    {
        std::lock_guard const lock{mutex_};
        auto& of = ended_[{definition, end}];
        of.counts.at(bucket) += count;
        of.seconds += seconds;
    }

    void connected(bool is)
    {
        std::lock_guard const lock{mutex_};
        is_connected_ = is;
    }

    seen now() const
    {
        std::lock_guard const lock{mutex_};
        return {latest_, clock::now() - read_at_, ended_, is_connected_};
    }

private:
    std::mutex mutable mutex_;
    std::optional<figures> latest_;
    clock::time_point read_at_{clock::now()};  // before the first reading: when this began
    ended_by_kind ended_;
    bool is_connected_{};
};

}  // namespace skald::metrics
