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

std::vector<running_groups::hang> running_groups::hanging(clock::time_point now)
{
    std::vector<hang> found;
    for (auto& one : groups_) {
        if (auto const member = one.running.get(); member != one.seen) {
            one.seen = member;
            one.since = now;
            one.log_from = now + hang_after_;
        }
        if (now < one.log_from || one.seen == running_member::none) continue;
        one.log_from = now + (now - one.since);
        auto const hanging = one.seen == running_member::all ? 0 : one.seen;
        SKALD_ASSERT(hanging < one.deliveries.size());
        hang met;
        met.step = one.step;
        met.key = one.deliveries[hanging].key;
        met.since = std::chrono::duration_cast<std::chrono::seconds>(now - one.since);
        for (std::size_t i = 0; i < one.deliveries.size() && !one.kept; ++i) {
            if (i == hanging) continue;
            met.released.push_back(one.deliveries[i].tag);
            if (!one.deliveries[i].serial.empty()) met.serials.push_back(one.deliveries[i].serial);
        }
        if (!one.kept) one.kept = hanging;
        found.push_back(std::move(met));
    }
    return found;
}

}  // namespace skald::runtime
