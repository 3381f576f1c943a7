// A wake-up: "there may be something to do". It may be spurious or late; polling is the guarantee.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace skald::runtime {

/// Threads: any.
class wakeup
{
public:
    void notify()
    {
        {
            std::lock_guard const lock{mutex_};
            pending_ = true;
        }
        changed_.notify_one();
    }

    /// Returns when notified, also where that happened before the call, or after `longest`.
    void wait(std::chrono::milliseconds longest)
    {
        std::unique_lock lock{mutex_};
        changed_.wait_for(lock, longest, [this] { return pending_; });
        pending_ = false;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool pending_{};
};

}  // namespace skald::runtime
