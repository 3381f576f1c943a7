// Headers that belong to the broker or that it acts on: no transport sends them, and they are dropped from deliveries.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace skald::core {

inline bool is_brokers_own_header(std::string_view name)
{
    // CC and BCC are further routing keys: if they are text, the broker closes the channel.
    // clang-format off
    static constexpr std::array<std::string_view, 12> names{
        "CC", "BCC", "x-death", "x-delivery-count", "x-acquired-count", "x-opt-rabbitmq-delivery-time",
        "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason",
        "x-last-death-exchange", "x-last-death-queue", "x-last-death-reason"};
    // clang-format on
    return std::ranges::find(names, name) != names.end();
}

}  // namespace skald::core
