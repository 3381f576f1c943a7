// SIGTERM and SIGINT as something to wait for, instead of a signal handler, in which almost nothing is allowed.
#pragma once

#include <chrono>

#include <csignal>

namespace skald::worker_detail {

/// Blocks the two signals for this thread and those that it starts from now on; the destructor takes what nobody has
/// waited for, and restores the mask.
/// Threads: construct it before any other thread starts; call wait() on the same thread.
class signals
{
public:
    signals();
    ~signals();
    signals(signals const&) = delete;
    signals& operator=(signals const&) = delete;

    /// True if a signal came within `longest`.
    bool wait(std::chrono::milliseconds longest) const;

private:
    sigset_t ours_{};
    sigset_t before_{};
};

}  // namespace skald::worker_detail
