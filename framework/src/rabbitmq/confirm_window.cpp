#include "rabbitmq/confirm_window.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <utility>

namespace skald::rabbitmq {

void confirm_window::sent(std::int64_t row, std::string exchange)
{
    entries_.push_back({row, true, true, {}, std::move(exchange)});
    ++outstanding_;
}

confirm_window::entry* confirm_window::find(std::uint64_t tag)
{
    if (tag < oldest_ || tag - oldest_ >= entries_.size()) return nullptr;
    auto& found = entries_[tag - oldest_];
    return found.outstanding ? &found : nullptr;
}

void confirm_window::returned(std::uint64_t tag, std::string reason)
{
    if (auto* const one = find(tag)) one->returned = std::move(reason);
}

void confirm_window::acked(std::uint64_t tag, bool multiple)
{
    answer(tag, multiple, true);
}

void confirm_window::nacked(std::uint64_t tag, bool multiple)
{
    answer(tag, multiple, false);
}

void confirm_window::answer(std::uint64_t tag, bool multiple, bool positive)
{
    if (!multiple) {
        if (auto* const one = find(tag)) resolve(*one, positive);
    }
    else if (!entries_.empty()) {
        // Zero stands for everything so far. A tag past the last one is the broker's mistake, and no reason to believe
        // that it has what we have not sent.
        auto const last = next_tag() - 1;
        auto const up_to = tag == 0 ? last : std::min(tag, last);
        for (auto t = oldest_; t <= up_to; ++t)
            if (auto* const one = find(t)) resolve(*one, positive);
    }
    drop_resolved();
}

void confirm_window::resolve(entry& one, bool positive)
{
    SKALD_ASSERT(one.outstanding && outstanding_ > 0);  // what is answered twice would be counted twice
    one.outstanding = false;
    --outstanding_;
    if (!one.wanted) return;
    using ports::publish_status;
    if (!positive) resolved_.push_back({one.row, publish_status::nacked, "the broker did not take the message"});
    else if (!one.returned.empty()) resolved_.push_back({one.row, publish_status::returned, one.returned});
    else resolved_.push_back({one.row, publish_status::confirmed, {}});
}

void confirm_window::drop_resolved()
{
    while (!entries_.empty() && !entries_.front().outstanding) {
        entries_.pop_front();
        ++oldest_;
    }
    SKALD_ASSERT(outstanding_ <= entries_.size() && (outstanding_ == 0) == entries_.empty());
}

void confirm_window::abandon(std::string const& why)
{
    for (auto& one : entries_) {
        if (one.outstanding && one.wanted) resolved_.push_back({one.row, ports::publish_status::unresolved, why});
        one.wanted = false;
    }
}

std::set<std::string> confirm_window::exchanges() const
{
    std::set<std::string> all;
    for (auto const& one : entries_)
        if (one.outstanding) all.insert(one.exchange);
    return all;
}

void confirm_window::bar(std::string const& exchange, std::string const& why)
{
    for (auto& one : entries_) {
        if (one.exchange != exchange) continue;
        if (one.outstanding && one.wanted) resolved_.push_back({one.row, ports::publish_status::barred, why});
        one.wanted = false;
    }
}

std::vector<ports::receipt> confirm_window::take_resolved()
{
    return std::exchange(resolved_, {});
}

}  // namespace skald::rabbitmq
