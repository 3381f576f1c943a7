#include "http/lane_pool.hpp"

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
    for (std::size_t lane = 0; lane < lanes_; ++lane) threads_.emplace_back([this, lane] { run(lane); });
}

bool lane_pool::submit(job& work)
{
    {
        std::lock_guard const lock{mutex_};
        // A lane that is free but hasn't woken up yet makes room for one more, so that a queue of 0 still works.
        if (stopping_ || running_ + waiting_.size() >= lanes_ + waiting_max_) return false;
        waiting_.push_back(std::move(work));
    }
    changed_.notify_one();
    return true;
}

void lane_pool::stop()
{
    std::deque<job> forgotten;  // destroyed without the lock: their sessions go with them
    {
        std::lock_guard const lock{mutex_};
        stopping_ = true;
        forgotten.swap(waiting_);
    }
    changed_.notify_all();
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
        auto work = std::move(waiting_.front());
        waiting_.pop_front();
        ++running_;

        lock.unlock();
        auto answer = this->answer(work.message, lane);
        // The lane is free before the client hears: a client that asks again at once must not meet its own shadow.
        lock.lock();
        --running_;
        lock.unlock();
        work.answered(std::move(work.message), std::move(answer));
        work = {};  // what it holds is destroyed without the lock
        lock.lock();
    }
}

reply lane_pool::answer(request& message, std::size_t lane)
try {
    return on_request_(message, lane);
}
catch (...) {
    return internal_error(message, std::current_exception(), log_);
}

}  // namespace skald::http
