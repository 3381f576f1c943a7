// What is ordered in the storm, and which of it is deadly.
#pragma once

#include "settings.hpp"

#include "rig/order_plan.hpp"

#include <vector>

namespace order_storm {

/// At the shop; one in ten as many are placed at the other home.
int order_count(settings const& chosen);

/// The customers whose orders kill the service that charges them begin with it.
inline constexpr char const* deadly = "deadly-";

/// The orders at both homes. Some of them are deadly. None of these ends its session too: a process counts that in
/// memory, so it would take hundreds of processes until its attempts are exhausted.
skald::rig::order_plan draw_plan(settings const& chosen);

/// The kiosk's orders are not the shop's any more.
std::vector<skald::rig::planned_order> take_kiosk_orders(skald::rig::order_plan& plan, settings const& chosen);

}  // namespace order_storm
