#include "sockets/socket_breaker.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace skald::sockets {

void socket_breaker::hold(int socket)
{
    std::lock_guard lock{mutex_};
    if (duplicate_ >= 0) ::close(duplicate_);
    duplicate_ = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
    if (for_good_) shut_down();
}

void socket_breaker::release()
{
    std::lock_guard lock{mutex_};
    if (duplicate_ >= 0) ::close(duplicate_);
    duplicate_ = -1;
}

void socket_breaker::break_now()
{
    std::lock_guard lock{mutex_};
    shut_down();
}

void socket_breaker::break_for_good()
{
    std::lock_guard lock{mutex_};
    for_good_ = true;
    shut_down();
}

void socket_breaker::shut_down()
{
    if (duplicate_ >= 0) ::shutdown(duplicate_, SHUT_RDWR);
}

watchdog::watchdog(socket_breaker& breaker) : breaker_{breaker}, thread_{[this] { run(); }} {}

watchdog::~watchdog()
{
    {
        std::lock_guard lock{mutex_};
        ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void watchdog::watch(clock::time_point deadline)
{
    bool sleeps_too_long{};
    {
        std::lock_guard lock{mutex_};
        deadline_ = deadline;
        bit_ = false;
        sleeps_too_long = deadline < looks_at_;
    }
    if (sleeps_too_long) changed_.notify_one();
}

bool watchdog::done()
{
    // The thread needs no wake-up: at the old deadline it finds nothing to do.
    std::lock_guard lock{mutex_};
    deadline_.reset();
    return !bit_;
}

void watchdog::run()
{
    std::unique_lock lock{mutex_};
    while (!ending_) {
        if (deadline_ && clock::now() >= *deadline_) {
            // Under the lock, so that done() can't return while the socket is about to be broken.
            breaker_.break_now();
            bit_ = true;
            deadline_.reset();
        }
        looks_at_ = deadline_.value_or(clock::time_point::max());
        if (!deadline_) {
            changed_.wait(lock);
        }
        else {
            auto const until = *deadline_;  // a copy: done() resets it while we wait
            changed_.wait_until(lock, until);
        }
    }
}

}  // namespace skald::sockets
