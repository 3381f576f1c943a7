#include "http/lane_pool.hpp"

#include "core/assert.hpp"

#include <exception>
#include <utility>

namespace skald::http {

lane_pool::lane_pool(std::size_t lanes, std::size_t waiting_max, handler on_request, core::logger& log)
    : lanes_{lanes}, waiting_max_{waiting_max}, on_request_{std::move(on_request)}, log_{log}
{}

lane_pool::~lane_pool()
{
    stop();
    join();
}

void lane_pool::start()
{
    SKALD_ASSERT(threads_.empty());  // a lane keeps its number, and with it its connection, for good
    for (std::size_t lane = 0; lane < lanes_; ++lane) threads_.emplace_back([this, lane] { run(lane); });
}

bool lane_pool::submit(pending_request& pending)
{
    {
        std::lock_guard const lock{mutex_};
        // A free lane that has not woken up yet makes room for one more, so that a queue of 0 still works.
        if (stopping_ || running_ + waiting_.size() >= lanes_ + waiting_max_) return false;
        waiting_.push_back(std::move(pending));
    }
    changed_.notify_one();
    return true;
}

lane_pool::load lane_pool::now() const
{
    std::lock_guard const lock{mutex_};
    return {running_, waiting_.size()};
}

void lane_pool::stop()
{
    std::deque<pending_request> forgotten;  // destroyed outside the lock, and its sessions with it
    {
        std::lock_guard const lock{mutex_};
        stopping_ = true;
        forgotten.swap(waiting_);
    }
    changed_.notify_all();
}

bool lane_pool::wait_until_idle(std::chrono::milliseconds within)
{
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, within, [this] { return running_ == 0; });
}

void lane_pool::join()
{
    for (auto& thread : threads_)
        if (thread.joinable()) thread.join();
}

void lane_pool::run(std::size_t lane)
{
    std::unique_lock lock{mutex_};
    for (;;) {
        changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
        if (stopping_) return;
        auto pending = std::move(waiting_.front());
        waiting_.pop_front();
        ++running_;
        SKALD_ASSERT(running_ <= lanes_ && running_ + waiting_.size() <= lanes_ + waiting_max_);  // as in submit()

        lock.unlock();
        auto made = handle(pending.asked, lane);
        // Free the lane before responding: a client that retries at once must not collide with its own request.
        lock.lock();
        --running_;
        if (stopping_) changed_.notify_all();
        lock.unlock();
        pending.on_reply(std::move(pending.asked), std::move(made));
        pending = {};  // what it holds is destroyed outside the lock
        lock.lock();
    }
}

reply lane_pool::handle(received& asked, std::size_t lane)
try {
    return on_request_(asked, lane);
}
catch (...) {
    return internal_error(asked.message, std::current_exception(), log_);
}

}  // namespace skald::http
