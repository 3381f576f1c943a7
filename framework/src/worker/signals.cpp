#include "worker/signals.hpp"

#include <ctime>

namespace skald::worker_detail {

signals::signals()
{
    sigemptyset(&ours_);
    sigaddset(&ours_, SIGTERM);
    sigaddset(&ours_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ours_, &before_);
}

// What came since it was last asked for would end the process as soon as it may: by the signal, and without a word of
// what was done, or of why it failed. One that the caller had blocked is the caller's.
signals::~signals()
{
    sigset_t late = ours_;
    for (int const one : {SIGTERM, SIGINT})
        if (sigismember(&before_, one) == 1) sigdelset(&late, one);
    timespec const at_once{};
    while (sigtimedwait(&late, nullptr, &at_once) > 0) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool signals::wait(std::chrono::milliseconds longest) const
{
    timespec const limit{longest.count() / 1000, (longest.count() % 1000) * 1'000'000};
    return sigtimedwait(&ours_, nullptr, &limit) > 0;
}

}  // namespace skald::worker_detail
