// A thread with a large stack.
//
// rabbitmq-c 0.11 decodes nested header tables by recursion, as deep as the publisher of the message likes: a frame
// holds some 50,000 levels. The memory is touched only if someone tries that.
#pragma once

#include <chrono>
#include <functional>
#include <future>

#include <pthread.h>

namespace skald::transports {

class io_thread
{
public:
    /// Throws: std::system_error if no thread can be created.
    explicit io_thread(std::function<void()> body);
    ~io_thread();
    io_thread(io_thread const&) = delete;
    io_thread& operator=(io_thread const&) = delete;

    /// True if the body has returned within `timeout`.
    bool ends_within(std::chrono::milliseconds timeout) const;

private:
    static void* run(void* self);

    std::function<void()> body_;
    std::promise<void> ended_;
    std::future<void> end_{ended_.get_future()};
    pthread_t thread_{};
};

}  // namespace skald::transports
