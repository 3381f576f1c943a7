// Whether more messages wait in the outbox than may. Measured now and then by one thread, asked by every request:
// counting for each would cost most when there is most to count.
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
