// The lanes: threads that run the blocking handler, fed by a bounded queue.
#pragma once

#include <chrono>
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
    struct pending_request
    {
        received asked;
        std::function<void(received, reply)> on_reply;  // called on the lane; must not throw
    };

    lane_pool(std::size_t lanes, std::size_t waiting_max, handler on_request, core::logger& log);
    ~lane_pool();

    void start();

    /// False if every lane is taken and the queue is full; `pending` is then left as it was.
    bool submit(pending_request& pending);

    struct load
    {
        std::size_t running;
        std::size_t waiting;
    };
    load now() const;

    /// Discards waiting requests. join() waits for running ones.
    void stop();

    /// After stop(): whether the last handler has returned within that time.
    bool wait_until_idle(std::chrono::milliseconds within);
    void join();

private:
    void run(std::size_t lane);
    reply handle(received& asked, std::size_t lane);

    std::size_t const lanes_;
    std::size_t const waiting_max_;
    handler const on_request_;
    core::logger& log_;

    std::mutex mutable mutex_;
    std::condition_variable changed_;
    std::deque<pending_request> waiting_;
    std::size_t running_{0};
    bool stopping_{false};
    std::vector<std::thread> threads_;
};

}  // namespace skald::http
