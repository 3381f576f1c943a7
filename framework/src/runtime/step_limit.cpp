#include "runtime/step_limit.hpp"

#include "core/assert.hpp"

#include <algorithm>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// How long a transaction's steps may take in total, so that a lock of the first one is not held for long.
constexpr double transaction_seconds = 0.1;

// Transactions that clash are rolled back one after the other: together they count once.
constexpr auto clash = 50ms;

constexpr step_limit::clock::duration loosen_after_first = 5s;
constexpr step_limit::clock::duration loosen_after_max = 60s;

}  // namespace

step_limit::step_limit(limit_bounds bounds)
    : bounds_{bounds}, lanes_{bounds.lanes_max}, batch_{std::min(bounds.batch_first, bounds.batch_max)},
      doubles_below_{bounds.batch_max}, fitting_{bounds.batch_max}, loosen_after_{loosen_after_first}
{
    SKALD_ASSERT(bounds.lanes_max > 0 && bounds.batch_max > 0 && bounds.batch_first > 0);
}

std::size_t step_limit::batch() const
{
    return std::min(batch_, fitting_);
}

// In powers of two, with a gap between growing and shrinking, so that it does not follow every fluctuation in speed.
bool step_limit::record_time(std::size_t members, clock::duration ran)
{
    auto const each = std::chrono::duration<double>(ran).count() / static_cast<double>(members);
    member_seconds_ += (each - member_seconds_) / (member_seconds_ == 0 ? 1 : 4);
    auto const before = batch();
    auto const takes = [this](std::size_t size) { return member_seconds_ * static_cast<double>(size); };
    while (fitting_ > 1 && takes(fitting_) > 1.5 * transaction_seconds) fitting_ /= 2;
    while (fitting_ < bounds_.batch_max && takes(fitting_ * 2) < 0.75 * transaction_seconds) fitting_ *= 2;
    return batch() < before;
}

std::optional<limit_change> step_limit::committed(std::size_t members, clock::duration ran, clock::time_point now)
{
    SKALD_ASSERT(members > 0);
    bool const was_full = members >= batch();
    if (record_time(members, ran)) return limit_change{"its runs take long", metrics::limit_reason::slow};
    auto const grew = was_full ? grow_batch(members) : std::nullopt;
    if (auto const loosened = loosen(now)) return loosened;
    return grew;
}

std::optional<limit_change> step_limit::grow_batch(std::size_t members)
{
    if (batch_ >= std::min(fitting_, bounds_.batch_max)) return {};
    auto const grown = batch_ < doubles_below_ ? std::min(batch_ * 2, doubles_below_) : batch_ + 1;
    // A batch that was filled before the limit shrank says nothing about the limit.
    if (members < batch_) return {};
    batch_ = std::min(grown, bounds_.batch_max);
    bool const is_over = shrunk_ && batch_ == bounds_.batch_max;
    return limit_change{"its transactions commit", metrics::limit_reason::commits, !is_over};
}

// Lifts one restriction at a time, the last one first, when there has been no conflict for long enough.
std::optional<limit_change> step_limit::loosen(clock::time_point now)
{
    if (is_unlimited()) {
        if (shrunk_ && now - *shrunk_ > 10 * loosen_after_max) loosen_after_ = loosen_after_first;
        return {};
    }
    if (now < loosen_at_) return {};
    if (takes_turns_) takes_turns_ = false;
    else ++lanes_;
    loosened_ = now;
    loosen_at_ = now + loosen_after_;
    return limit_change{"no conflict for a while", metrics::limit_reason::no_conflict};
}

std::optional<limit_change> step_limit::conflicted(clock::time_point now)
{
    ++conflicts_;
    if (shrunk_ && now - *shrunk_ < clash) return {};
    if (loosened_ != clock::time_point{} && now - loosened_ < loosen_after_)
        loosen_after_ = std::min(2 * loosen_after_, loosen_after_max);
    shrunk_ = now;
    loosen_at_ = now + loosen_after_;
    bool const is_slow = fitting_ == 1 && bounds_.batch_max > 1;
    if (lanes_ > 1 && !is_slow) lanes_ /= 2;
    else if (!takes_turns_ && !is_slow) takes_turns_ = true;
    else if (batch_ > 1) batch_ = doubles_below_ = batch_ / 2;
    else return {};
    return limit_change{"it conflicted with another transaction", metrics::limit_reason::conflict};
}

}  // namespace skald::runtime
