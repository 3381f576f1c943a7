#include "rig/signals.hpp"

#include <ctime>

namespace skald::rig {

signals::signals()
{
    sigemptyset(&watched_);
    for (int const one : {SIGINT, SIGTERM, SIGHUP}) {
        // A shell starts background jobs with SIGINT ignored, which is not meant for us; SIGHUP that nohup ignores is.
        bool const ignored = std::signal(one, SIG_DFL) == SIG_IGN;
        if (ignored && one == SIGHUP) std::signal(one, SIG_IGN);
        else sigaddset(&watched_, one);
    }
    pthread_sigmask(SIG_BLOCK, &watched_, nullptr);
}

void signals::wait_for(std::chrono::milliseconds length) const
{
    timespec const timeout{length.count() / 1'000, length.count() % 1'000 * 1'000'000};
    if (int const caught = sigtimedwait(&watched_, nullptr, &timeout); caught > 0) throw interrupted{caught};
}

}  // namespace skald::rig
