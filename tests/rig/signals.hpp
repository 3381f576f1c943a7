// SIGINT, SIGTERM and SIGHUP as something that the main thread polls, instead of handlers that run anywhere.
#pragma once

#include <chrono>
#include <csignal>

namespace skald::rig {

/// Thrown by the main thread when someone asks the demonstration to stop.
struct interrupted
{
    int signal;
};

/// To be made first in main(): threads that are started later inherit the blocked signals.
class signals
{
public:
    signals();

    /// Waits; throws `interrupted` as soon as one of the signals arrives.
    void wait_for(std::chrono::milliseconds length) const;

private:
    sigset_t watched_;
};

}  // namespace skald::rig
