// Whether the outbox holds more messages than it may. One thread measures it from time to time; every request reads it:
// counting for each request would cost most when there is most to count.
#pragma once

#include <atomic>

namespace skald::runtime {

/// Threads: any.
class backlog
{
public:
    void set(bool over) { over_.store(over, std::memory_order_relaxed); }
    bool is_over() const { return over_.load(std::memory_order_relaxed); }

private:
    std::atomic<bool> over_{};
};

}  // namespace skald::runtime
