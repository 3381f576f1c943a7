// Requests at a constant rate by many clients: one that is not answered holds up none of those after it.
#pragma once

#include "open_loop.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace skald_bench {

/// Each client takes the next request, waits until it is due, and sends it.
class open_load
{
public:
    using wall = std::chrono::system_clock;  // the server's clock too, which is on this machine

    /// Sends the request of that number, and returns when it has been answered.
    using client = std::function<void(std::size_t)>;

    static constexpr int clients_max = 64;

    /// `connect` makes a client; each is then used by one thread.
    open_load(double rate, std::size_t count, std::function<client()> const& connect)
        : clients_{connected(connect)}, loop_{wall::now() + std::chrono::milliseconds{100}, rate},
          answers_(count), clients_at_work_{clients_max}
    {
        for (auto const& one : clients_)
            threads_.emplace_back([this, &one](std::stop_token const& stop) { run_client(stop, one); });
    }

    /// Throws a client's error, if one had any.
    bool finished()
    {
        std::lock_guard const lock{mutex_};
        if (failure_) std::rethrow_exception(failure_);
        return clients_at_work_ == 0;
    }

    open_loop<wall> const& loop() const { return loop_; }

    /// Of each request, when finished(): milliseconds from when it was due until it was answered.
    std::vector<double> const& answers() const { return answers_; }

private:
    static std::vector<client> connected(std::function<client()> const& connect)
    {
        std::vector<client> all;
        for (int i = 0; i < clients_max; ++i) all.push_back(connect());
        return all;
    }

    void run_client(std::stop_token const& stop, client const& send)
    {
        try {
            for (std::size_t i = next_++; i < answers_.size() && !stop.stop_requested(); i = next_++) {
                std::this_thread::sleep_until(loop_.due(i));  // the load itself
                send(i);
                answers_[i] = loop_.latency_ms(i, wall::now());
            }
        }
        catch (...) {
            std::lock_guard const lock{mutex_};
            failure_ = std::current_exception();
        }
        --clients_at_work_;
    }

    std::vector<client> clients_;
    open_loop<wall> loop_;
    std::vector<double> answers_;
    std::atomic<std::size_t> next_{};
    std::atomic<int> clients_at_work_;
    std::mutex mutex_;
    std::exception_ptr failure_;
    std::vector<std::jthread> threads_;
};

}  // namespace skald_bench
