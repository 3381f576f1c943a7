// The lanes: threads that run the blocking handler, fed by a bounded queue. In addition there is one lookup thread.
// While all lanes are taken, it handles requests that need no lane.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
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
        request message;
        std::function<void(request, reply)> answered;  // called on the lane or the lookup thread; must not throw
    };

    lane_pool(std::size_t lanes, std::size_t waiting_max, handler on_request, core::logger& log,
              lookup_handler lookup = {});
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
    void join();

private:
    std::size_t waiting() const { return waiting_.size() + unseen_.size() + (is_looking_up_ ? 1 : 0); }
    bool has_waiting() const { return !waiting_.empty() || !unseen_.empty(); }
    bool lookup_has_work() const { return running_ == lanes_ && !unseen_.empty(); }
    pending_request take_waiting();
    void run(std::size_t lane);
    void run_lookups();
    reply answer(request& message, std::size_t lane);
    std::optional<reply> answer_without_lane(request& message);

    std::size_t const lanes_;
    std::size_t const waiting_max_;
    handler const on_request_;
    lookup_handler const lookup_;
    core::logger& log_;

    std::mutex mutable mutex_;
    std::condition_variable changed_;  // for the lanes
    std::condition_variable lookup_changed_;
    std::deque<pending_request> waiting_;  // the lookup thread had no response to these; they came first
    std::deque<pending_request> unseen_;
    bool is_looking_up_{false};  // one more request, which is in neither queue
    std::size_t running_{0};
    bool stopping_{false};
    std::vector<std::thread> threads_;
};

}  // namespace skald::http
