#include "sockets/watchdog.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace skald::sockets {

/// It sleeps until the earliest deadline that it knows and checks again then, so that work which is done in time wakes
/// it up at most once for each such wait.
class watch_thread
{
public:
    using clock = watchdog::clock;

    static std::shared_ptr<watch_thread> of_process();

    watch_thread() : thread_{[this] { run(); }} {}
    ~watch_thread();
    watch_thread(watch_thread const&) = delete;
    watch_thread& operator=(watch_thread const&) = delete;

    void enter(watchdog& dog);
    void leave(watchdog& dog);
    void watch(watchdog& dog, clock::time_point deadline);
    bool done(watchdog& dog);

private:
    using state = watchdog::state;

    void run();
    void interrupt_where_overdue(clock::time_point now);
    clock::time_point earliest() const;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<watchdog*> dogs_;
    clock::time_point wakes_at_{clock::time_point::max()};  // when the thread wakes up by itself, or was told to
    bool ending_{};
    std::thread thread_;  // last: it uses the rest
};

std::shared_ptr<watch_thread> watch_thread::of_process()
{
    static std::mutex mutex;
    static std::weak_ptr<watch_thread> current;
    std::lock_guard const lock{mutex};
    auto thread = current.lock();
    if (!thread) current = thread = std::make_shared<watch_thread>();
    return thread;
}

watch_thread::~watch_thread()
{
    SKALD_ASSERT(dogs_.empty());
    {
        std::lock_guard const lock{mutex_};
        ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void watch_thread::enter(watchdog& dog)
{
    std::lock_guard const lock{mutex_};
    dogs_.push_back(&dog);
}

void watch_thread::leave(watchdog& dog)
{
    std::lock_guard const lock{mutex_};
    auto const gone = std::erase(dogs_, &dog);
    SKALD_ASSERT(gone == 1);
}

void watch_thread::watch(watchdog& dog, clock::time_point deadline)
{
    {
        std::lock_guard const lock{mutex_};
        SKALD_ASSERT(dog.state_ == state::idle);  // the inner one's done() would leave the outer one unbounded
        dog.state_ = state::watching;
        dog.deadline_ = deadline;
        if (deadline >= wakes_at_) return;
        wakes_at_ = deadline;  // the next caller with a later one need not wake it too
    }
    changed_.notify_one();
}

bool watch_thread::done(watchdog& dog)
{
    // The thread needs no wake-up: at the old deadline it finds nothing to do.
    std::lock_guard const lock{mutex_};
    SKALD_ASSERT(dog.state_ != state::idle);
    return std::exchange(dog.state_, state::idle) == state::watching;
}

void watch_thread::run()
{
    std::unique_lock lock{mutex_};
    while (!ending_) {
        interrupt_where_overdue(clock::now());
        wakes_at_ = earliest();
        if (wakes_at_ == clock::time_point::max()) {
            changed_.wait(lock);
        }
        else {
            auto const until = wakes_at_;  // a copy: watch() changes it while we wait
            changed_.wait_until(lock, until);
        }
    }
}

/// Under the lock, so that done() can't return, nor the interrupter end, while its socket is about to be broken.
void watch_thread::interrupt_where_overdue(clock::time_point now)
{
    for (auto* const dog : dogs_) {
        if (dog->state_ != state::watching || now < dog->deadline_) continue;
        dog->interrupter_.break_now();
        dog->state_ = state::bit;
    }
}

watch_thread::clock::time_point watch_thread::earliest() const
{
    auto first = clock::time_point::max();
    for (auto const* const dog : dogs_)
        if (dog->state_ == state::watching) first = std::min(first, dog->deadline_);
    return first;
}

watchdog::watchdog(socket_interrupter& interrupter) : interrupter_{interrupter}, thread_{watch_thread::of_process()}
{
    thread_->enter(*this);
}

watchdog::~watchdog()
{
    thread_->leave(*this);
}

void watchdog::watch(clock::time_point deadline)
{
    thread_->watch(*this, deadline);
}

bool watchdog::done()
{
    return thread_->done(*this);
}

}  // namespace skald::sockets
