// A request that is being served for as long as a test wants.
#pragma once

#include <skald/http_handler.hpp>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace skald::test {

/// A handler that blocks until it is released, and then gives the response it was told to give.
class held_handler
{
public:
    http::response operator()(http::request_context& ctx)
    {
        ctx.sql("INSERT INTO effect VALUES ('held')");
        ++runs;
        std::unique_lock lock{mutex_};
        changed_.notify_all();
        changed_.wait(lock, [this] { return is_open_; });
        return {std::exchange(status, 201), "text/plain", {}, "made"};
    }
    void wait_until_inside()
    {
        std::unique_lock lock{mutex_};
        changed_.wait(lock, [this] { return runs > 0; });
    }
    void let_out()
    {
        std::lock_guard const lock{mutex_};
        is_open_ = true;
        changed_.notify_all();
    }

    std::atomic<int> runs{};
    int status{201};

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_open_{};
};

}  // namespace skald::test
