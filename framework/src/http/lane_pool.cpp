#include "http/lane_pool.hpp"

#include "core/assert.hpp"

#include <exception>
#include <utility>

namespace skald::http {

lane_pool::lane_pool(std::size_t lanes, std::size_t waiting_max, handler on_request, core::logger& log,
                     lookup_handler lookup)
    : lanes_{lanes}, waiting_max_{waiting_max}, on_request_{std::move(on_request)}, lookup_{std::move(lookup)}, log_{
                                                                                                                    log}
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
    if (lookup_) threads_.emplace_back([this] { run_lookups(); });
}

bool lane_pool::submit(pending_request& pending)
{
    bool is_for_lookup{};
    {
        std::lock_guard const lock{mutex_};
        // A free lane that has not woken up yet makes room for one more, so that a queue of 0 still works.
        if (stopping_ || running_ + waiting() >= lanes_ + waiting_max_) return false;
        unseen_.push_back(std::move(pending));
        is_for_lookup = lookup_has_work();
    }
    // Waking one suffices: a lane that becomes free looks for work without being woken.
    (is_for_lookup ? lookup_changed_ : changed_).notify_one();
    return true;
}

lane_pool::load lane_pool::now() const
{
    std::lock_guard const lock{mutex_};
    return {running_, waiting()};
}

void lane_pool::stop()
{
    std::deque<pending_request> forgotten, also_forgotten;  // destroyed outside the lock, and their sessions with them
    {
        std::lock_guard const lock{mutex_};
        stopping_ = true;
        forgotten.swap(waiting_);
        also_forgotten.swap(unseen_);
    }
    changed_.notify_all();
    lookup_changed_.notify_all();
}

void lane_pool::join()
{
    for (auto& thread : threads_)
        if (thread.joinable()) thread.join();
}

lane_pool::pending_request lane_pool::take_waiting()
{
    SKALD_ASSERT(has_waiting());
    auto& queue = waiting_.empty() ? unseen_ : waiting_;
    auto pending = std::move(queue.front());
    queue.pop_front();
    return pending;
}

void lane_pool::run(std::size_t lane)
{
    std::unique_lock lock{mutex_};
    for (;;) {
        changed_.wait(lock, [this] { return stopping_ || has_waiting(); });
        if (stopping_) return;
        auto pending = take_waiting();
        ++running_;
        SKALD_ASSERT(running_ <= lanes_ && running_ + waiting() <= lanes_ + waiting_max_);  // as counted in submit()
        bool const leaves_work = lookup_has_work();  // this may have been the last free lane

        lock.unlock();
        if (leaves_work) lookup_changed_.notify_one();
        auto answer = this->answer(pending.message, lane);
        // Free the lane before responding: a client that retries at once must not collide with its own request.
        lock.lock();
        --running_;
        lock.unlock();
        pending.answered(std::move(pending.message), std::move(answer));
        pending = {};  // what it holds is destroyed outside the lock
        lock.lock();
    }
}

void lane_pool::run_lookups()
{
    std::unique_lock lock{mutex_};
    for (;;) {
        lookup_changed_.wait(lock, [this] { return stopping_ || lookup_has_work(); });
        if (stopping_) return;
        SKALD_ASSERT(!is_looking_up_);
        auto pending = std::move(unseen_.front());
        unseen_.pop_front();
        is_looking_up_ = true;

        lock.unlock();
        auto answer = answer_without_lane(pending.message);
        bool const is_answered = answer.has_value();
        if (is_answered) pending.answered(std::move(pending.message), *std::move(answer));
        lock.lock();
        is_looking_up_ = false;
        if (is_answered || stopping_) {
            lock.unlock();
            pending = {};
            lock.lock();
            continue;
        }
        waiting_.push_back(std::move(pending));
        changed_.notify_one();  // a lane may have become free meanwhile
    }
}

std::optional<reply> lane_pool::answer_without_lane(request& message)
try {
    return lookup_(message);
}
catch (...) {
    return internal_error(message, std::current_exception(), log_);
}

reply lane_pool::answer(request& message, std::size_t lane)
try {
    return on_request_(message, lane);
}
catch (...) {
    return internal_error(message, std::current_exception(), log_);
}

}  // namespace skald::http
