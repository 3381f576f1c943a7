// The database connections of the entry: each request that needs one has one to itself.
#pragma once

#include "core/assert.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace skald::entry_detail {

/// Threads: any, for take(); one for the rest. The server of Skald's own has as many lanes as there are connections,
/// and never waits here.
template <class Connection>
class connection_pool
{
public:
    /// A connection, for as long as this lives; or none.
    using lease = std::unique_ptr<Connection, std::function<void(Connection*)>>;

    /// From now on there are connections to take.
    void open(std::vector<std::unique_ptr<Connection>> connections)
    {
        std::lock_guard const lock{mutex_};
        SKALD_ASSERT(all_.empty() && !connections.empty());
        all_ = std::move(connections);
        for (auto const& one : all_) free_.push_back(one.get());
        is_open_ = true;
    }

    /// None if the pool is not open, or if all are in use and none is returned within `longest`.
    lease take(std::chrono::milliseconds longest)
    {
        std::unique_lock lock{mutex_};
        changed_.wait_for(lock, longest, [this] { return !is_open_ || !free_.empty(); });
        if (!is_open_ || free_.empty()) return {};
        auto* const taken = free_.back();
        free_.pop_back();
        return {taken, [this](Connection* returned) { put_back(returned); }};
    }

    /// Blocks for as long as `longest`, or until the pool is closed.
    void wait_for_close(std::chrono::milliseconds longest)
    {
        std::unique_lock lock{mutex_};
        changed_.wait_for(lock, longest, [this] { return !is_open_; });
    }

    bool is_open() const
    {
        std::lock_guard const lock{mutex_};
        return is_open_;
    }

    /// Gives out no more, and waits until `deadline` for those in use. True if all came back: they are closed then.
    bool close(std::chrono::steady_clock::time_point deadline)
    {
        std::unique_lock lock{mutex_};
        is_open_ = false;
        changed_.notify_all();
        if (!changed_.wait_until(lock, deadline, [this] { return free_.size() == all_.size(); })) return false;
        free_.clear();
        all_.clear();
        return true;
    }

private:
    void put_back(Connection* returned)
    {
        std::lock_guard const lock{mutex_};
        free_.push_back(returned);
        changed_.notify_all();
    }

    std::mutex mutable mutex_;
    std::condition_variable changed_;
    bool is_open_{};
    std::vector<std::unique_ptr<Connection>> all_;
    std::vector<Connection*> free_;
};

}  // namespace skald::entry_detail
