// Answers that are committed, in memory for a while: whoever sends such a key again gets its answer without a
// look at the database, as most do who ask twice, within seconds. A stored answer is final, so that an old
// copy is as good as a new one.
//
// It is filled after COMMIT, or from the database, and by nothing else: what is here was stored. What is not here may
// well be stored all the same.
#pragma once

#include "core/fingerprint.hpp"
#include "core/identity.hpp"

#include <skald/http.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace skald::http {

struct cached_response
{
    core::saga_id id;
    core::fingerprint fingerprint;  // of the request that was answered so
    response answer;
};

/// Threads: any.
class response_cache
{
public:
    using clock = std::chrono::steady_clock;

    struct limits
    {
        std::size_t bytes_max{};  // of all of them together; 0: none is kept
        std::chrono::milliseconds longest{};
    };

    response_cache() = default;
    explicit response_cache(limits l) : limits_{l} {}

    /// Those that were kept first make room. An answer that is a large part of all the room is not kept.
    void keep(cached_response what, clock::time_point now = clock::now());

    std::shared_ptr<cached_response const> find(core::saga_id const& id, clock::time_point now = clock::now()) const;

private:
    struct entry
    {
        std::shared_ptr<cached_response const> what;
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

    void drop_first();

    limits const limits_{};
    std::mutex mutable mutex_;
    std::list<entry> entries_;  // the first to go first
    std::unordered_map<core::saga_id, std::list<entry>::const_iterator, hash> by_id_;
    std::size_t bytes_{};
};

}  // namespace skald::http
