// Whether to stop, and a wait that ends at once on stop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace skald::runtime {

/// Threads: any.
class stop_flag
{
public:
    void stop()
    {
        {
            std::lock_guard const lock{mutex_};
            stopped_ = true;
        }
        changed_.notify_all();
    }

    bool stopped() const
    {
        std::lock_guard const lock{mutex_};
        return stopped_;
    }

    /// Waits for `longest` or until stopped. Returns whether it is stopped.
    bool wait(std::chrono::milliseconds longest) const
    {
        std::unique_lock lock{mutex_};
        return changed_.wait_for(lock, longest, [this] { return stopped_; });
    }

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    bool stopped_{};
};

}  // namespace skald::runtime
