#include "rabbitmq/ack_ledger.hpp"

#include "core/assert.hpp"

namespace skald::rabbitmq {

void ack_ledger::ack(std::uint64_t tag)
{
    auto const found = outstanding_.find(tag);
    if (found == outstanding_.end() || found->second) return;
    found->second = true;
    ++unflushed_;
}

bool ack_ledger::requeue(std::uint64_t tag)
{
    auto const found = outstanding_.find(tag);
    if (found == outstanding_.end() || found->second) return false;
    outstanding_.erase(found);
    return true;
}

std::vector<ack_frame> ack_ledger::flush()
{
    std::vector<ack_frame> frames;
    if (unflushed_ == 0) return frames;

    auto const before = outstanding_.size();

    // The oldest ones, as far as they are all acked, go in one frame.
    auto next = outstanding_.begin();
    std::size_t together = 0;
    for (; next != outstanding_.end() && next->second; ++next) ++together;
    if (together > 0) frames.push_back({std::prev(next)->first, together > 1});
    next = outstanding_.erase(outstanding_.begin(), next);

    while (next != outstanding_.end()) {
        if (next->second) {
            frames.push_back({next->first, false});
            next = outstanding_.erase(next);
        }
        else {
            ++next;
        }
    }
    // None is acked that was not requested, and none is left out.
    SKALD_ASSERT(before - outstanding_.size() == unflushed_);
    unflushed_ = 0;
    return frames;
}

}  // namespace skald::rabbitmq
