// Committed responses, kept in memory for a while: a client that sends such a key again gets its response without a
// database query. Most duplicates come within seconds. A stored response is final, so an old copy is as good as a new
// one.
//
// It is filled only after COMMIT, from the database, or from the front, which is: everything in it is stored. A
// response that is not in it may still be stored. It is the first tier of those that keep responses (ports/front.hpp).
#pragma once

#include "core/identity.hpp"
#include "ports/front.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace skald::entry_detail {

/// Threads: any.
class response_cache final : public ports::response_tier
{
public:
    using clock = std::chrono::steady_clock;

    struct limits
    {
        std::size_t bytes_max{};  // of all entries together; 0: caches nothing
        std::chrono::milliseconds longest{};
    };

    response_cache() = default;
    explicit response_cache(limits l) : limits_{l} {}

    ports::found find(ports::question const& q) override;
    void keep(ports::kept_response what) override { keep(std::move(what), clock::now()); }

    /// The oldest entries make room, and so does one of another epoch under the same key. A response that would take a
    /// large part of the whole cache is not cached.
    void keep(ports::kept_response what, clock::time_point now);

    /// Whether there is one for this key, of whatever epoch.
    bool has(core::saga_id const& id) const { return find(id, clock::now()) != nullptr; }

    /// That one.
    std::shared_ptr<ports::kept_response const> find(core::saga_id const& id, clock::time_point now) const;

private:
    struct entry
    {
        std::shared_ptr<ports::kept_response const> what;
        std::size_t bytes{};
        clock::time_point until{};
    };

    struct hash
    {
        std::size_t operator()(core::saga_id const& id) const
        {
            return std::hash<std::string>{}(id.scope) * 31 + std::hash<std::string>{}(id.key);
        }
    };

    void drop(std::list<entry>::const_iterator which);

    limits const limits_{};
    std::mutex mutable mutex_;
    std::list<entry> entries_;  // oldest first
    std::unordered_map<core::saga_id, std::list<entry>::const_iterator, hash> by_id_;
    std::size_t bytes_{};
};

}  // namespace skald::entry_detail
