// What this process knows of requests without the database: those in flight, and the responses to those that ended
// recently. A client that sends such a key again is answered from here. It is also told if the key belongs to a
// different request, which the database would show only after the first request commits.
#pragma once

#include "core/fingerprint.hpp"
#include "core/identity.hpp"
#include "entry/duplicate_share.hpp"
#include "entry/epoch_watch.hpp"
#include "entry/guard_way.hpp"
#include "entry/response_cache.hpp"
#include "entry/routes.hpp"
#include "metrics/front_metrics.hpp"
#include "metrics/lane_metrics.hpp"
#include "ports/front.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

namespace skald::entry_detail {

/// The requests that have claimed their keys and have no response yet.
/// Threads: any. A list suffices: there are never more entries than connections of the entry.
class in_flight_requests
{
    struct entry
    {
        core::saga_id id;
        core::fingerprint fingerprint;
    };

public:
    /// The request counts as running for as long as its mark lives.
    class mark
    {
    public:
        mark(in_flight_requests& owner, std::list<entry>::iterator at) : owner_{&owner}, at_{at} {}
        mark(mark&& other) noexcept : owner_{std::exchange(other.owner_, nullptr)}, at_{other.at_} {}
        mark& operator=(mark&& other) noexcept
        {
            std::swap(owner_, other.owner_);
            std::swap(at_, other.at_);
            return *this;
        }
        ~mark()
        {
            if (owner_ != nullptr) owner_->leave(at_);
        }

    private:
        in_flight_requests* owner_;
        std::list<entry>::iterator at_;
    };

    /// Only for a request that has claimed the key: one that merely asks may be the one that differs.
    mark enter(core::saga_id id, core::fingerprint fingerprint)
    {
        std::lock_guard const lock{mutex_};
        return {*this, entries_.insert(entries_.end(), {std::move(id), std::move(fingerprint)})};
    }

    bool has(core::saga_id const& id) const
    {
        std::lock_guard const lock{mutex_};
        return std::ranges::any_of(entries_, [&](entry const& running) { return running.id == id; });
    }

    /// Nothing: no request with this key is running. Otherwise, whether one of those running is this request.
    std::optional<bool> find(core::saga_id const& id, core::fingerprint const& fingerprint) const
    {
        std::lock_guard const lock{mutex_};
        std::optional<bool> is_same;
        for (auto const& running : entries_)
            if (running.id == id) is_same = is_same.value_or(false) || running.fingerprint == fingerprint;
        return is_same;
    }

private:
    void leave(std::list<entry>::iterator at)
    {
        std::lock_guard const lock{mutex_};
        entries_.erase(at);
    }

    std::mutex mutable mutex_;
    std::list<entry> entries_;
};

/// The epoch of what the front alone remembers: no database's.
inline constexpr std::string_view epoch_of_the_front{"the front alone"};

/// Threads: any. One for a process.
struct known_requests
{
    in_flight_requests in_flight{};
    response_cache responses{};
    epoch_watch epochs{};
    ports::front* front{};  // null: there is none
    guard_way way{};        // what it is asked for
    duplicate_share duplicates{};
    metrics::front_metrics front_counts{};
    metrics::doubt_metrics doubts{};  // COMMITs of requests whose outcome was unknown

    /// Whether the front alone remembers the requests to this route.
    bool is_alone(route const& by) const
    {
        return front != nullptr && way == guard_way::redis_only && by.key == http::idempotency::may_repeat;
    }

    /// Whether the front is left alone, though there is one: neither this process nor another one of its service has
    /// many duplicates. PostgreSQL decides all the same, so that only the time it takes depends on this.
    bool front_rests() const
    {
        auto const seen = duplicates.now();
        if (seen == duplicate_share::level::high) front->want();
        return seen == duplicate_share::level::low && !front->is_wanted();
    }
};

}  // namespace skald::entry_detail
