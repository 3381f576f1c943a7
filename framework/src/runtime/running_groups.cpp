#include "runtime/running_groups.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <utility>

namespace skald::runtime {

running_groups::group& running_groups::begin(std::string_view step, std::span<task const> tasks)
{
    auto& made = groups_.emplace_back();
    made.step = step;
    for (auto const& t : tasks) made.deliveries.push_back({t.delivery.tag, t.delivery.message.id, t.serial});
    return made;
}

std::optional<std::size_t> running_groups::end(group const& ended)
{
    auto const found = std::ranges::find(groups_, &ended, [](group const& one) { return &one; });
    SKALD_ASSERT(found != groups_.end());
    auto const kept = found->kept;
    groups_.erase(found);
    return kept;
}

std::vector<running_groups::slow> running_groups::running_long(clock::time_point now)
{
    std::vector<slow> found;
    for (auto& one : groups_) {
        if (auto const member = one.running.get(); member != one.seen) {
            one.seen = member;
            one.since = now;
            one.log_from = now + slow_after_;
        }
        if (now >= one.log_from && one.seen != running_member::none) found.push_back(told(one, now));
    }
    return found;
}

running_groups::slow running_groups::told(group& one, clock::time_point now) const
{
    slow met;
    met.is_one = one.seen != running_member::all;
    auto const member = met.is_one ? one.seen : 0;
    SKALD_ASSERT(member < one.deliveries.size());
    met.step = one.step;
    met.key = one.deliveries[member].key;
    met.hangs = now - one.since >= hang_after_;
    met.since = std::chrono::duration_cast<std::chrono::seconds>(now - one.since);
    one.log_from = now + (now - one.since);
    if (!met.hangs) {
        one.log_from = std::min(one.log_from, one.since + hang_after_);
        return met;
    }
    for (std::size_t i = 0; i < one.deliveries.size() && !one.kept; ++i) {
        if (i == member) continue;
        met.released.push_back(one.deliveries[i].tag);
        if (!one.deliveries[i].serial.empty()) met.serials.push_back(one.deliveries[i].serial);
    }
    if (!one.kept) one.kept = member;
    return met;
}

}  // namespace skald::runtime
