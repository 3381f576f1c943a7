// The lanes: threads that run the blocking handler, with a bounded queue before them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <skald/http.hpp>

#include "core/log.hpp"
#include "http/handler.hpp"

namespace skald::http {

/// Threads: any.
class lane_pool
{
public:
    struct job
    {
        request message;
        std::function<void(request, reply)> answered;  // called on the lane; must not throw
    };

    lane_pool(std::size_t lanes, std::size_t waiting_max, handler on_request, core::logger& log);
    ~lane_pool();

    void start();

    /// False if every lane is taken and the queue is full; then nothing of `work` was moved.
    bool submit(job& work);

    /// Forgets what waits. What runs is waited for by join().
    void stop();
    void join();

private:
    void run(std::size_t lane);
    reply answer(request& message, std::size_t lane);

    std::size_t const lanes_;
    std::size_t const waiting_max_;
    handler const on_request_;
    core::logger& log_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<job> waiting_;
    std::size_t running_{0};
    bool stopping_{false};
    std::vector<std::thread> threads_;
};

}  // namespace skald::http
