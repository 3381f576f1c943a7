// What is to be written to Redis and need not be waited for.
#pragma once

#include "redis/script.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace skald::redis_detail {

struct write
{
    script const* what{};
    words keys;
    words arguments;

    std::size_t size() const
    {
        std::size_t bytes = 256;
        for (auto const& word : arguments) bytes += word.size();
        return bytes;
    }
};

/// Bounded: while Redis is away, what is new finds no room, and misses there later.
class write_queue
{
public:
    static constexpr std::size_t bytes_max = 8 * 1024 * 1024;

    /// False: there is no room.
    bool add(write what)
    {
        auto const size = what.size();
        if (bytes_ + size > bytes_max) return false;
        bytes_ += size;
        all_.push_back(std::move(what));
        return true;
    }

    bool is_empty() const { return all_.empty(); }

    std::vector<write> take_all()
    {
        bytes_ = 0;
        return std::exchange(all_, {});
    }

private:
    std::vector<write> all_;
    std::size_t bytes_{};
};

}  // namespace skald::redis_detail
