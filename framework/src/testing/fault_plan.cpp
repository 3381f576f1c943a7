#include "testing/fault_plan.hpp"

#include <algorithm>

namespace skald::testing::inner {

std::string without_number(std::string const& delivery)
{
    return delivery.substr(0, delivery.find('#'));
}

void fault_plan::reach(crash_point point)
{
    if (!visit_is_planned(point)) return;
    dead_ = true;
    throw crashed{};
}

bool fault_plan::loses(crash_point point)
{
    return visit_is_planned(point);
}

void fault_plan::claimed()
{
    if (auto const what = std::exchange(at_claim_, {})) what();
}

bool fault_plan::visit_is_planned(crash_point point)
{
    auto const before =
        std::ranges::count_if(visits_, [&](visit const& v) { return v.delivery == delivery_ && v.point == point; });
    visit const now{delivery_, point, static_cast<int>(before) + 1};
    visits_.push_back(now);
    auto const it = std::ranges::find_if(planned_, [&](visit const& v) {
        bool const is_meant = v.delivery.empty() || v.delivery == now.delivery ||
                              (v.nth == 0 && v.delivery == without_number(now.delivery));
        return is_meant && v.point == point && (v.nth == 0 || v.nth == now.nth);
    });
    if (it == planned_.end()) return false;
    planned_.erase(it);
    return true;
}

}  // namespace skald::testing::inner
