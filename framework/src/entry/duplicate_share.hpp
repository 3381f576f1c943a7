// How many of the latest requests were duplicates, of those that this process could not answer from memory. Where there
// are hardly any, asking the front costs more than it saves.
#pragma once

#include <bitset>
#include <cstddef>
#include <mutex>

namespace skald::entry_detail {

/// Threads: any.
class duplicate_share
{
public:
    static constexpr std::size_t looked_at = 256;
    static constexpr std::size_t worth_it = 16;  // of those: what that many duplicates save, the others pay

    enum class level { unknown, low, high };  // unknown: there were too few requests

    void saw(bool is_duplicate)
    {
        std::lock_guard const lock{mutex_};
        duplicates_ -= latest_[next_] ? 1 : 0;
        duplicates_ += is_duplicate ? 1 : 0;
        latest_[next_] = is_duplicate;
        next_ = (next_ + 1) % looked_at;
        is_full_ = is_full_ || next_ == 0;
    }

    level now() const
    {
        std::lock_guard const lock{mutex_};
        if (duplicates_ >= worth_it) return level::high;
        return is_full_ ? level::low : level::unknown;
    }

private:
    std::mutex mutable mutex_;
    std::bitset<looked_at> latest_;
    std::size_t next_{};
    std::size_t duplicates_{};
    bool is_full_{};
};

}  // namespace skald::entry_detail
