// SIGINT, SIGTERM and SIGHUP as something that the main thread asks for, instead of handlers that strike anywhere.
#pragma once

#include <chrono>
#include <csignal>

namespace skald::rig {

/// Thrown by the main thread when somebody asks the demonstration to stop.
struct interrupted
{
    int signal;
};

/// Made first in main(): threads that are started later inherit the blocked signals.
class signals
{
public:
    signals();

    /// Waits; throws `interrupted` as soon as one of the signals is there.
    void wait_for(std::chrono::milliseconds length) const;

private:
    sigset_t watched_;
};

}  // namespace skald::rig
