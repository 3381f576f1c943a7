// Bounds calls that block on a socket: breaks it when a deadline passes before the work under it is done.
//
// One thread does so for all sockets of the process. It lives as long as there is a watchdog, and each watchdog finds
// it by itself: it knows nothing but deadlines, and as a parameter of everything that connects it could be omitted, or
// be a different one.
#pragma once

#include "sockets/socket_interrupter.hpp"

#include <chrono>
#include <memory>

namespace skald::sockets {

class watch_thread;

/// Threads: watch() and done() by one thread; the interrupter's socket may be in use by that thread.
/// Cheap enough for every query: a lock, and no wake-up if the thread checks the clock before the deadline anyway.
class watchdog
{
public:
    using clock = std::chrono::steady_clock;

    explicit watchdog(socket_interrupter& interrupter);
    ~watchdog();
    watchdog(watchdog const&) = delete;
    watchdog& operator=(watchdog const&) = delete;

    /// Every call must be followed by done() before the next.
    void watch(clock::time_point deadline);

    /// Returns whether the socket was not broken; from then on it will not be.
    bool done();

private:
    friend watch_thread;

    socket_interrupter& interrupter_;
    std::shared_ptr<watch_thread> const thread_;

    enum class state { idle, watching, bit };

    // Under the thread's lock.
    state state_{state::idle};
    clock::time_point deadline_{};  // while it watches
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
