#include "faults.hpp"

namespace order_storm {
namespace {

using skald::rig::pick;

struct fault_row
{
    std::string_view name;
    std::string_view description;
    int weight;
    int shortest_ms;
    int longest_ms;
    target on;  // for a service's fault: replaced by the service
};

// In the order of fault_kind.
constexpr std::array<fault_row, fault_kind_count> rows{{
    {"service_killed", "SIGKILL to a service, started again a moment later", 12, 100, 3'000, target::orders},
    {"service_halted", "SIGSTOP to a service, and on it goes as a zombie", 8, 500, 8'000, target::orders},
    {"service_restarted", "a service stopped in order, and started a moment later", 4, 100, 2'000, target::orders},
    {"sessions_terminated", "about half of a database's sessions ended", 10, 0, 0, target::postgres},
    {"postgres_killed", "SIGKILL to all of PostgreSQL", 4, 100, 4'000, target::postgres},
    {"postgres_restarted", "PostgreSQL stopped in order, and started", 2, 100, 2'000, target::postgres},
    {"broker_killed", "SIGKILL to the broker", 2, 100, 4'000, target::broker},
    {"broker_restarted", "the broker stopped in order, and started", 1, 100, 2'000, target::broker},
    {"broker_alarm", "a memory alarm: RabbitMQ blocks all publishers", 3, 1'000, 6'000, target::broker},
    {"broker_connections_closed", "RabbitMQ closes all connections", 4, 0, 0, target::broker},
    {"queue_deleted", "a service's queue deleted while it is empty", 1, 0, 0, target::everything},
    {"database_cut", "all TCP connections to PostgreSQL cut, and new ones refused", 4, 50, 3'000,
     target::database_link},
    {"database_stalled", "PostgreSQL's answers do not arrive", 4, 500, 9'000, target::database_link},
    {"broker_cut", "all TCP connections to the broker cut, and new ones refused", 4, 50, 3'000, target::broker_link},
    {"broker_stalled", "the broker's answers do not arrive", 4, 500, 9'000, target::broker_link},
    {"table_locked", "a table of Skald's or of the service's locked, as by ALTER TABLE", 8, 200, 8'000, target::tables},
    {"table_rewritten", "VACUUM FULL, REINDEX, or an index made and dropped", 6, 0, 0, target::tables},
    {"commands_issued", "running sagas cancelled, and others paused for a while", 6, 100, 3'000, target::sagas},
    {"door_crowded", "hundreds of clients that send half a request, noise, or read no answer", 4, 500, 4'000,
     target::door},
    {"messages_forged", "messages that are none, for a service", 4, 0, 0, target::queues},
}};

fault_row const& row_of(fault_kind kind)
{
    return rows[static_cast<std::size_t>(kind)];
}

}  // namespace

std::string_view name_of(fault_kind kind)
{
    return row_of(kind).name;
}

std::string_view description_of(fault_kind kind)
{
    return row_of(kind).description;
}

std::optional<fault_kind> kind_named(std::string_view name)
{
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i].name == name) return static_cast<fault_kind>(i);
    return std::nullopt;
}

bool is_possible(fault_kind kind, std::string_view transport)
{
    if (transport == "rabbitmq") return true;
    auto const on = row_of(kind).on;
    bool const is_rabbitmqs = kind == fault_kind::broker_alarm || kind == fault_kind::broker_connections_closed ||
                              kind == fault_kind::queue_deleted;
    bool const needs_broker = on == target::broker || on == target::broker_link || on == target::queues;
    return !is_rabbitmqs && (transport == "kafka" || !needs_broker);
}

fault draw_fault(std::optional<fault_kind> only, std::string_view transport, random_source& random)
{
    if (only) return draw_fault(*only, random);
    int all = 0;
    for (auto const& row : rows) all += row.weight;
    int luck = pick(random, 1, all);
    std::size_t chosen = 0;
    while ((luck -= rows[chosen].weight) > 0) ++chosen;
    auto const drawn = draw_fault(static_cast<fault_kind>(chosen), random);
    return is_possible(drawn.kind, transport) ? drawn : draw_fault(only, transport, random);
}

fault draw_fault(fault_kind kind, random_source& random)
{
    auto const& row = row_of(kind);
    fault drawn{kind, row.on, pick(random, std::size_t{0}, skald::rig::service_count - 1),
                milliseconds{pick(random, row.shortest_ms, row.longest_ms)}, random()};
    if (drawn.on == target::orders) drawn.on = static_cast<target>(drawn.service);
    return drawn;
}

milliseconds draw_pause(random_source& random)
{
    return milliseconds{pick(random, 300, 4'000)};
}

}  // namespace order_storm
