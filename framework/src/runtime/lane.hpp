// A lane: one thread with its own database connection, which runs groups of deliveries and acks them.
#pragma once

#include "core/log.hpp"
#include "ports/transport.hpp"
#include "runtime/dispatcher.hpp"
#include "runtime/executor.hpp"
#include "runtime/stop_flag.hpp"

namespace skald::runtime {

/// Threads: run() on one thread; `stop` from any.
class lane
{
public:
    /// `work` is one for all lanes.
    lane(executor executor, dispatcher& work, ports::subscription& deliveries, stop_flag const& stop,
         core::logger& log);

    /// Runs until `stop`. What is running then is finished first; what waits stays unacked and is delivered again.
    void run();

private:
    bool park_refused(task const& t, std::string const& why);

    executor executor_;
    dispatcher& work_;
    ports::subscription& deliveries_;
    stop_flag const& stop_;
    core::logger& log_;
};

}  // namespace skald::runtime
