// Where the threads that handle deliveries and the thread that owns the connection exchange requests and deliveries.
//
// rabbitmq-c is used by one thread only, so everything else is a request that this thread is woken to carry out.
#pragma once

#include "ports/transport.hpp"
#include "transports/waker.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace skald::transports {

/// What the connection's thread is to do.
struct requests
{
    std::vector<ports::delivery_tag> acks;
    std::vector<ports::delivery_tag> requeues;
    bool stop{};
    bool close{};
};

/// Threads: every function may be called from any thread. Bounded by the prefetch.
class mailbox
{
public:
    // For the threads that handle deliveries; the meaning is the port's.
    std::vector<ports::delivery> take(std::size_t max, std::chrono::milliseconds wait);
    void ack(ports::delivery_tag tag);
    void requeue(ports::delivery_tag tag);
    void stop();
    void close();
    bool available() const;
    std::string last_error() const;

    // For the connection's thread.

    /// Readable while there are requests.
    int wake_descriptor() const { return wake_.descriptor(); }
    requests collect();

    /// Returns those that are no longer handed out: they go back to the broker.
    std::vector<ports::delivery> deliver(std::vector<ports::delivery> arrived);

    void connected();

    /// What was not taken is dropped: the broker delivers it again.
    void disconnected(std::string const& why);

    /// Waits until `until`. False if there is no reason to connect any more.
    bool wait_to_reconnect(std::chrono::steady_clock::time_point until);

private:
    waker const wake_;
    mutable std::mutex mutex_;
    std::condition_variable arrived_;
    std::condition_variable ended_;
    std::deque<ports::delivery> untaken_;
    requests requests_;
    bool connected_{};
    std::string last_error_{"not connected yet"};
};

}  // namespace skald::transports
