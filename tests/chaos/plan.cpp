#include "plan.hpp"

#include "strangers.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace order_storm {
namespace {

std::size_t kiosk_orders(settings const& chosen)
{
    return static_cast<std::size_t>(order_count(chosen) / 10);
}

}  // namespace

int order_count(settings const& chosen)
{
    return std::max(1, static_cast<int>(chosen.minutes * 60 * chosen.orders_per_second));
}

skald::rig::order_plan draw_plan(settings const& chosen)
{
    auto plan = skald::rig::make_plan(order_count(chosen) + static_cast<int>(kiosk_orders(chosen)), chosen.seed);
    // Kafka notices a death only after a session timeout.
    std::size_t const every = chosen.transport == "kafka" ? 1'000 : 200;
    for (std::size_t i = every / 2; i < plan.orders.size(); i += every) {
        auto& order = plan.orders[i];
        if (ends_its_session(order.cents)) continue;
        order.customer = fmt::format("{}{}", deadly, i);
        plan.wallets[order.customer] = order.cents;
    }
    return plan;
}

std::vector<skald::rig::planned_order> take_kiosk_orders(skald::rig::order_plan& plan, settings const& chosen)
{
    auto const first = plan.orders.end() - static_cast<std::ptrdiff_t>(kiosk_orders(chosen));
    std::vector<skald::rig::planned_order> const taken{first, plan.orders.end()};
    plan.orders.erase(first, plan.orders.end());
    return taken;
}

}  // namespace order_storm
