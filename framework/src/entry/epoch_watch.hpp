// What a process knows of its database's epoch (skald.epoch()). A copy of a stored response is good only in the epoch
// in which it was read. Each claim of a request brings the epoch along, so that nothing is asked for it alone.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace skald::entry_detail {

/// Threads: any.
class epoch_watch
{
public:
    using clock = std::chrono::steady_clock;

    /// A claim that was sent at `asked` has met this epoch. Of two claims, the one that was sent later knows better.
    void saw(std::string const& epoch, clock::time_point asked)
    {
        std::lock_guard const lock{mutex_};
        if (asked < asked_) return;
        epoch_ = epoch;
        asked_ = asked;
    }

    /// Whether it is the one that was seen last.
    bool is_current(std::string const& epoch) const
    {
        std::lock_guard const lock{mutex_};
        return epoch == epoch_;
    }

private:
    std::mutex mutable mutex_;
    std::string epoch_;
    clock::time_point asked_{};
};

}  // namespace skald::entry_detail
