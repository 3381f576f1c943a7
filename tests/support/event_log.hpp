// A log that keeps its events, for tests of what is logged.
#pragma once

#include "core/log.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace skald::test {

/// Threads: any.
class event_log final : public core::logger
{
public:
    void write(core::severity level, std::string_view event, std::span<core::log_field const> fields) noexcept override
    {
        std::lock_guard const lock{mutex_};
        events_.emplace_back(event);
        lines_.push_back(core::log_line("now", level, "service", event, fields));
        changed_.notify_all();
    }

    std::vector<std::string> events() const
    {
        std::lock_guard const lock{mutex_};
        return events_;
    }

    /// The lines of this event, as they are printed.
    std::vector<std::string> lines(std::string_view event) const
    {
        std::lock_guard const lock{mutex_};
        std::vector<std::string> found;
        for (std::size_t n = 0; n < events_.size(); ++n)
            if (events_[n] == event) found.push_back(lines_[n]);
        return found;
    }

    auto count(std::string_view event) const
    {
        std::lock_guard const lock{mutex_};
        return std::ranges::count(events_, event);
    }
    bool has(std::string_view event) const { return count(event) > 0; }

    bool wait_for(std::string_view event) const
    {
        std::unique_lock lock{mutex_};
        return changed_.wait_for(lock, std::chrono::seconds{30},
                                 [&] { return std::ranges::find(events_, event) != events_.end(); });
    }

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::vector<std::string> events_;
    std::vector<std::string> lines_;
};

}  // namespace skald::test
