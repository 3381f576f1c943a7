#include "runtime/running_groups.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <utility>

namespace skald::runtime {

running_groups::group& running_groups::begin(std::span<task const> tasks, clock::time_point now,
                                             clock::duration patience)
{
    auto& made = groups_.emplace_back();
    made.since = now;
    made.tell_from = now + patience;
    for (auto const& t : tasks) made.deliveries.push_back({t.delivery.tag, t.delivery.message.id});
    return made;
}

void running_groups::end(group const& ended)
{
    auto const found = std::ranges::find(groups_, &ended, [](group const& one) { return &one; });
    SKALD_ASSERT(found != groups_.end());
    groups_.erase(found);
}

std::vector<running_groups::hang> running_groups::hanging(clock::time_point now)
{
    std::vector<hang> found;
    for (auto& one : groups_) {
        auto const member = one.running.get();
        if (now < one.tell_from || member == running_member::none) continue;
        one.tell_from = now + (now - one.since);
        auto const hanging = member == running_member::all ? 0 : member;
        SKALD_ASSERT(hanging < one.deliveries.size());
        hang told{one.deliveries[hanging].key, std::chrono::duration_cast<std::chrono::seconds>(now - one.since), {}};
        for (std::size_t i = 0; i < one.deliveries.size() && !one.is_released; ++i)
            if (i != hanging) told.released.push_back(one.deliveries[i].tag);
        one.is_released = true;
        found.push_back(std::move(told));
    }
    return found;
}

}  // namespace skald::runtime
