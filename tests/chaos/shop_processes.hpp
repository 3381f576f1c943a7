// The services as processes, and what their logs say in the end.
#pragma once

#include "network.hpp"
#include "settings.hpp"
#include "storm_report.hpp"

#include "rig/process.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace order_storm {

inline constexpr std::size_t processes_each = 2;

struct front
{
    std::uint16_t port;  // of the first process of orders
    std::string kiosk_database;
    std::string gateway;  // its address, if it charges
};

/// Each service once, then each a second time, then the kiosk. None is started.
std::vector<std::unique_ptr<skald::rig::process>> make_processes(settings const& chosen, front const& where,
                                                                 network const& database_network,
                                                                 network const& broker_network);

/// Where the broker is, if there is one.
network way_to_broker(settings const& chosen);

/// By their logs: deliveries that were processed, and those of them that were duplicates.
void count_deliveries(settings const& chosen, storm_summary& run);

}  // namespace order_storm
