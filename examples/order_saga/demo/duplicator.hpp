// Sees every message that the services publish, and publishes each once more: some at once, some a moment later, some
// when the sagas have ended.
//
// A queue of its own, bound to the same exchange with the same routing keys, gets a copy of whatever the services get.
// The copies that the duplicator itself publishes come back to it too; it knows them by the property `app_id`, which
// Skald does not read, so that headers and body stay exactly as they were.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "broker.hpp"
#include "order_plan.hpp"

namespace order_demo {

/// Threads: for the thread that made it; a thread of its own does the work.
class duplicator
{
public:
    /// When this returns, everything that is published from now on will be captured.
    duplicator(std::string const& broker_url, std::uint64_t seed);

    /// From now on nothing is held back, and what was is published. To be called when the sagas have ended.
    void publish_held_back() { hold_back_ = false; }

    int captured() const { return captured_; }
    int replayed() const { return replayed_; }

    /// Throws what ended the thread, if something did.
    void check() const;

private:
    using clock = std::chrono::steady_clock;

    void run(std::stop_token const& stop);
    void take(std::unique_ptr<delivery> taken);
    void publish_due();
    void publish(std::unique_ptr<delivery> copied);

    broker consumer_;
    broker publisher_;
    random_source random_;
    std::multimap<clock::time_point, std::unique_ptr<delivery>> in_a_moment_;
    std::vector<std::unique_ptr<delivery>> held_back_;
    std::vector<std::unique_ptr<delivery>> under_way_;  // published, not confirmed
    std::atomic<bool> hold_back_{true};
    std::atomic<int> captured_{};
    std::atomic<int> replayed_{};
    std::atomic<bool> failed_{};
    std::exception_ptr failure_;  // written before failed_ is set
    std::jthread thread_;         // last: it stops before what it uses goes away
};

}  // namespace order_demo
