// SIGTERM and SIGINT as something to wait for, instead of a handler in which next to nothing is allowed.
#pragma once

#include <chrono>

#include <csignal>

namespace skald::worker_detail {

/// Blocks the two signals for this thread and those it starts from now on; the destructor puts things back.
/// Threads: to be built before any other thread; wait() on the same one.
class signals
{
public:
    signals();
    ~signals();
    signals(signals const&) = delete;
    signals& operator=(signals const&) = delete;

    /// True when one came within `longest`.
    bool wait(std::chrono::milliseconds longest) const;

private:
    sigset_t ours_{};
    sigset_t before_{};
};

}  // namespace skald::worker_detail
