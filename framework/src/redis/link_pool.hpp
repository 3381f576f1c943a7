// The links that requests ask by: one for each of those that ask at a time, made by somebody else.
#pragma once

#include "redis/link.hpp"

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace skald::redis_detail {

/// Threads: any.
class link_pool
{
public:
    explicit link_pool(std::size_t most) : most_{most} {}

    /// Nothing if there is none, or none becomes free by then. Goes back by put_back() or lost().
    std::unique_ptr<link> take(link::clock::time_point until)
    {
        std::unique_lock lock{mutex_};
        changed_.wait_until(lock, until, [this] { return !free_.empty() || count_ == 0; });
        if (free_.empty()) return {};
        auto taken = std::move(free_.back());
        free_.pop_back();
        return taken;
    }

    void put_back(std::unique_ptr<link> one)
    {
        std::lock_guard const lock{mutex_};
        free_.push_back(std::move(one));
        changed_.notify_one();
    }

    /// One that was taken is of no use any more.
    void lost()
    {
        std::lock_guard const lock{mutex_};
        if (--count_ == 0) changed_.notify_all();
    }

    /// Those that nobody has, which may be of no use either.
    void drop_free()
    {
        std::lock_guard const lock{mutex_};
        count_ -= free_.size();
        free_.clear();
    }

    void add(std::unique_ptr<link> made)
    {
        std::lock_guard const lock{mutex_};
        free_.push_back(std::move(made));
        ++count_;
        changed_.notify_one();
    }

    /// How many may be added.
    std::size_t missing() const
    {
        std::lock_guard const lock{mutex_};
        return most_ - count_;
    }

private:
    std::size_t const most_;
    std::mutex mutable mutex_;
    std::condition_variable changed_;
    std::vector<std::unique_ptr<link>> free_;
    std::size_t count_{};  // with those that are taken
};

}  // namespace skald::redis_detail
