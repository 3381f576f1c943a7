// A lane: one thread with its own database connection, which takes deliveries, settles each and acks it.
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "ports/transport.hpp"
#include "runtime/executor.hpp"
#include "runtime/step_lanes.hpp"
#include "runtime/stop_flag.hpp"

#include <cstddef>
#include <random>
#include <vector>

namespace skald::runtime {

/// Threads: run() on one thread; `stop` from any.
class lane
{
public:
    /// `limits` is one for all lanes.
    lane(executor executor, ports::subscription& deliveries, std::size_t batch_max, step_lanes& limits,
         stop_flag const& stop, core::logger& log, std::mt19937_64 random);

    /// Until `stop`. What it has taken is settled first, unless the database is away: that
    /// stays unacked and comes again.
    void run();

private:
    void settle_all(std::vector<ports::delivery> const& all);
    std::vector<bool> try_to_settle_together(std::vector<ports::delivery> const& all);
    void settle(ports::delivery const& d);
    bool try_to_settle(ports::delivery const& d, int tries);
    bool keep_aside(ports::delivery const& d, int tries, std::string const& why);

    executor executor_;
    ports::subscription& deliveries_;
    std::size_t batch_max_;
    step_lanes& limits_;
    stop_flag const& stop_;
    core::logger& log_;
    std::mt19937_64 random_;
    core::backoff backoff_{std::chrono::milliseconds{20}, std::chrono::milliseconds{5'000}};
};

}  // namespace skald::runtime
