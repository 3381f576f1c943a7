// What a process knows of its database's epoch (skald.epoch()). A copy of a stored response is good only in the epoch
// in which it was read. Each claim of a request brings the epoch along, so that nothing is asked for it alone.
#pragma once

#include "core/instant.hpp"

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace skald::entry_detail {

/// Threads: any.
class epoch_watch
{
public:
    using clock = std::chrono::steady_clock;

    struct known
    {
        std::string epoch;
        core::instant now;  // by the database's clock; never before it
    };

    epoch_watch() = default;

    /// `lease`: for how long current() knows what a claim has seen.
    explicit epoch_watch(std::chrono::milliseconds lease) : lease_{lease} {}

    /// `is_another` says whether this process has found another database than its own: there no copy is good.
    void open(std::function<bool()> is_another)
    {
        std::lock_guard const lock{mutex_};
        is_another_ = std::move(is_another);
    }

    /// A claim that was sent at `asked` has met this epoch, at `at` by the database's clock. Of two claims, the one
    /// that was sent later knows better.
    void saw(std::string epoch, core::instant at, clock::time_point asked)
    {
        std::lock_guard const lock{mutex_};
        if (asked < asked_) return;
        epoch_ = std::move(epoch);
        at_ = at;
        asked_ = asked;
    }

    /// What to ask a shared cache with, whose entries may be hours old: nothing if the last claim is older than the
    /// lease, since the database may have failed over since.
    std::optional<known> current(clock::time_point now = clock::now()) const
    {
        std::lock_guard const lock{mutex_};
        if (epoch_.empty() || now - asked_ > lease_ || is_replaced()) return std::nullopt;
        return known{epoch_, at_ + std::chrono::ceil<std::chrono::microseconds>(now - asked_)};
    }

    /// The one that was seen last, however long ago; empty if none was.
    std::string last() const
    {
        std::lock_guard const lock{mutex_};
        return is_replaced() ? "another database" : epoch_;
    }

private:
    bool is_replaced() const { return is_another_ && is_another_(); }

    std::chrono::milliseconds const lease_{};
    std::mutex mutable mutex_;
    std::function<bool()> is_another_;
    std::string epoch_;
    core::instant at_{};
    clock::time_point asked_{};
};

}  // namespace skald::entry_detail
