// Ends a blocking call of a client library from another thread.
//
// amqp_basic_publish has no timeout and hangs as long as a broker's alarm lasts; a COMMIT that waits for a standby is
// bounded by none of PostgreSQL's timeouts. shutdown(2) on the socket ends either; close(2) would free the number for
// somebody else's file. The library itself may close the socket at any time, so the breaker works on a duplicate of its
// own, which can't be reused meanwhile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace skald::sockets {

/// Threads: every function may be called from any thread.
class socket_breaker
{
public:
    socket_breaker() = default;
    ~socket_breaker() { release(); }
    socket_breaker(socket_breaker const&) = delete;
    socket_breaker& operator=(socket_breaker const&) = delete;

    /// From now on this is the socket to break.
    void hold(int socket);
    void release();

    /// Shuts the socket down that is held now, if any.
    void break_now();

    /// Also every socket that is held later.
    void break_for_good();

private:
    void shut_down();

    std::mutex mutex_;
    int duplicate_{-1};
    bool for_good_{};
};

/// Breaks a socket when a deadline passes before the work under it is done.
/// Threads: watch() and done() by one thread; the breaker's socket may be in use by that thread.
/// Cheap enough for every query: its thread sleeps to the deadline it knew last and looks again there, so that work
/// which is done in time wakes it up no more than once for each such wait.
class watchdog
{
public:
    using clock = std::chrono::steady_clock;

    explicit watchdog(socket_breaker& breaker);
    ~watchdog();
    watchdog(watchdog const&) = delete;
    watchdog& operator=(watchdog const&) = delete;

    void watch(clock::time_point deadline);

    /// Returns whether the socket was left alone.
    bool done();

private:
    void run();

    socket_breaker& breaker_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<clock::time_point> deadline_;
    clock::time_point looks_at_{clock::time_point::max()};  // when the thread wakes up by itself
    bool bit_{};
    bool ending_{};
    std::thread thread_;  // last: it uses the rest
};

/// Watches for as long as it lives.
class watched
{
public:
    watched(watchdog& dog, watchdog::clock::time_point deadline) : dog_{dog} { dog_.watch(deadline); }
    ~watched() { dog_.done(); }
    watched(watched const&) = delete;
    watched& operator=(watched const&) = delete;

private:
    watchdog& dog_;
};

}  // namespace skald::sockets
