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

signals::~signals()
{
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool signals::wait(std::chrono::milliseconds longest) const
{
    timespec const limit{longest.count() / 1000, (longest.count() % 1000) * 1'000'000};
    return sigtimedwait(&ours_, nullptr, &limit) > 0;
}

}  // namespace skald::worker_detail
