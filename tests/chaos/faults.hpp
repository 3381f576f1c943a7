// What fails in the storm, and what goes down with it.
#pragma once

#include "rig/order_plan.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace order_storm {

using skald::rig::random_source;
using std::chrono::milliseconds;

enum class fault_kind {
    service_killed,
    service_halted,
    service_restarted,
    sessions_terminated,
    postgres_killed,
    postgres_restarted,
    broker_killed,
    broker_restarted,
    broker_alarm,
    broker_connections_closed,
    queue_deleted,
    database_cut,
    database_stalled,
    broker_cut,
    broker_stalled,
    table_locked,
    table_rewritten,
    commands_issued,
    door_crowded,
    messages_forged,
};
inline constexpr std::size_t fault_kind_count = 20;

/// What a fault holds while it lasts. Two that hold the same never strike at once: if a server is down, there is no
/// telling what a second fault did to it.
enum class target {
    orders,
    payments,
    shipping,
    postgres,
    broker,
    database_link,
    broker_link,
    tables,
    sagas,
    door,
    queues,
    everything
};

struct fault
{
    fault_kind kind{};
    target on{};
    std::size_t service{};  // if it is one service's fault
    milliseconds lasts{};
    std::uint64_t seed{};  // for whatever else is left to chance
};

std::string_view name_of(fault_kind kind);

/// Whether it can strike over that SKALD_TRANSPORT.
bool is_possible(fault_kind kind, std::string_view transport);

/// What happens there, for --help and the report.
std::string_view description_of(fault_kind kind);

/// Nothing if no kind has this name.
std::optional<fault_kind> kind_named(std::string_view name);

/// Draws the next fault; the same source draws the same sequence. Of `only` that kind, which must be possible.
fault draw_fault(std::optional<fault_kind> only, std::string_view transport, random_source& random);
fault draw_fault(fault_kind kind, random_source& random);

/// How long it stays quiet before the next one.
milliseconds draw_pause(random_source& random);

}  // namespace order_storm
