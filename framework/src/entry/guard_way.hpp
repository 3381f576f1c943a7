// What stands before the guard of requests: SKALD_GUARD. (docs/redis.md)
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace skald::entry_detail {

enum class guard_way {
    postgres,     // nothing
    cache_aside,  // responses, read through and written after COMMIT
    lock,         // marks of the requests that are under way
    accelerator,  // both
    redis_only,   // the same; and for routes that may repeat, the guard is not asked at all
};

inline constexpr std::array<std::string_view, 5> guard_ways{"postgres", "cache_aside", "lock", "accelerator",
                                                            "redis_only"};

inline bool keeps_responses(guard_way way)
{
    return way != guard_way::postgres && way != guard_way::lock;
}

inline bool keeps_marks(guard_way way)
{
    return way != guard_way::postgres && way != guard_way::cache_aside;
}

/// Nothing if it is none of them.
inline std::optional<guard_way> parse_guard_way(std::string_view text)
{
    auto const it = std::ranges::find(guard_ways, text);
    if (it == guard_ways.end()) return std::nullopt;
    return static_cast<guard_way>(it - guard_ways.begin());
}

}  // namespace skald::entry_detail
