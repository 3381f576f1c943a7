// Where a publish loop's messages come from: memory (runtime/memory_source.hpp) or the table
// (runtime/table_source.hpp). A source looks after its own rows: it deletes those that were confirmed and defers those
// that the broker did not take. Rows that it hears nothing about come due by themselves.
#pragma once

#include "ports/store.hpp"
#include "ports/transport.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::runtime {

/// Threads: any for wake(), the loop's for all else.
class publish_source
{
public:
    using clock = std::chrono::steady_clock;

    /// The outcomes of messages that it gave out.
    struct answers
    {
        std::vector<std::int64_t> confirmed;
        std::vector<ports::outbox::deferral> deferred;
        std::vector<std::int64_t> unresolved;  // the outcome is unknown: they stay as they are
    };

    publish_source() = default;
    publish_source(publish_source const&) = delete;
    publish_source& operator=(publish_source const&) = delete;
    virtual ~publish_source() = default;

    /// There may be something to poll: ends the loop's current wait, or its next one.
    void wake()
    {
        std::lock_guard const lock{mutex_};
        is_woken_ = true;
        if (publisher_ != nullptr) publisher_->interrupt();
    }

    /// Messages can be sent. `publisher` must live until close().
    void open(ports::publisher& publisher)
    {
        std::lock_guard const lock{mutex_};
        publisher_ = &publisher;
    }

    /// No message can be sent for now: until open() nothing is polled.
    virtual void close()
    {
        std::lock_guard const lock{mutex_};
        publisher_ = nullptr;
    }

    virtual std::string_view name() const = 0;

    /// What is to be sent now, at most `max`. If it is fewer, that is all for now. Throws ports::fault.
    virtual std::vector<ports::outbox::row> poll(std::size_t max) = 0;

    /// Takes answers, and deletes and defers its rows when it is time to. Returns how many were deleted. Throws
    /// ports::fault: those rows are sent again.
    virtual std::size_t resolve(answers now) = 0;

    /// How long there is nothing to do, unless an answer arrives or something wakes it.
    virtual std::chrono::milliseconds max_wait() const = 0;

    /// Whether nothing that it gave out still awaits its answer, or its deletion.
    virtual bool is_idle() const = 0;

    /// Something failed: no answers will come for what it gave out.
    virtual void release() noexcept = 0;

protected:
    bool take_wake()
    {
        std::lock_guard const lock{mutex_};
        return std::exchange(is_woken_, false);
    }

    mutable std::mutex mutex_;
    ports::publisher* publisher_{};  // while open

private:
    bool is_woken_{};
};

}  // namespace skald::runtime
