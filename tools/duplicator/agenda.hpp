// What to send when. Pure: the caller supplies the time, and randomness comes from a seed.
#pragma once

#include "duplicator/delay.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <utility>

namespace skald::tools {

/// `Item` points to an object with bytes().
template <class Item>
class agenda
{
public:
    using clock = std::chrono::steady_clock;

    /// Each item is to be sent `times` times. While more than `bytes_max` wait, new items are due at once. So an agenda
    /// that can't be worked off in time sends earlier instead of growing.
    agenda(int times, delay_rule delay, std::uint64_t seed, std::size_t bytes_max)
        : times_{times}, delay_{std::move(delay)}, random_{seed}, bytes_max_{bytes_max}
    {}

    void add(Item const& item, clock::time_point now)
    {
        for (int copy = 0; copy < times_; ++copy) {
            // Always drawn: the delays of one message must not depend on how much memory others take.
            auto const delay = delay_(copy, random_);
            bool const at_once = hurried_ || bytes_ + item->bytes() > bytes_max_;
            put(at_once ? now : delay ? now + *delay : clock::time_point::max(), item);
        }
    }

    /// The item was taken, but did not arrive.
    void put_back(Item const& item, clock::time_point due) { put(due, item); }

    std::optional<Item> take_due(clock::time_point now)
    {
        if (waiting_.empty() || waiting_.begin()->first > now) return std::nullopt;
        auto const taken = waiting_.extract(waiting_.begin());
        bytes_ -= taken.mapped()->bytes();
        return std::move(taken.mapped());
    }

    /// When the next one is due; clock::time_point::max() if there is none.
    clock::time_point next() const { return waiting_.empty() ? clock::time_point::max() : waiting_.begin()->first; }

    /// Makes everything due, including what comes from now on. The order stays the same.
    void hurry(clock::time_point now)
    {
        if (std::exchange(hurried_, true)) return;
        std::multimap<clock::time_point, Item> due;
        for (auto& [when, item] : waiting_) due.emplace_hint(due.end(), now, std::move(item));
        waiting_ = std::move(due);
    }

    bool empty() const { return waiting_.empty(); }

    /// Whether so much is waiting that nothing more should be accepted until some of it is sent.
    bool is_full() const { return bytes_ > 2 * bytes_max_; }

private:
    void put(clock::time_point due, Item const& item)
    {
        waiting_.emplace(due, item);
        bytes_ += item->bytes();
    }

    int times_;
    delay_rule delay_;
    std::mt19937_64 random_;
    std::size_t bytes_max_;
    std::multimap<clock::time_point, Item> waiting_;
    std::size_t bytes_{};  // of what waits; a message counts once for each copy still to be sent
    bool hurried_{};
};

}  // namespace skald::tools
