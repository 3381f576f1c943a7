// The three databases of the shop, as the demonstration sees them while it runs. The verdict has a file of its own.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pqxx/pqxx>

#include "rig/addresses.hpp"
#include "rig/order_plan.hpp"

namespace skald::rig {

struct saga_census
{
    int running{};  // running or compensating
    int completed{};
    int compensated{};
    int stuck{};

    int ended() const { return completed + compensated; }
};

/// Threads: one at a time.
class shop_databases
{
public:
    explicit shop_databases(addresses const& chosen);

    pqxx::connection& at(std::size_t service) { return connections_[service]; }

    /// Whether the service has created its tables: Skald's and its own.
    bool has_tables(std::size_t service);

    /// Fills wallets and shelves.
    void fill(order_plan const& plan);

    saga_census count_sagas();

    /// Messages that the broker has not confirmed yet, over all three databases.
    std::int64_t count_unsent();

    /// A number that grows with everything Skald does.
    std::int64_t activity();

    /// From the start of the first saga to the end of the last; nothing if one has not ended.
    std::optional<std::chrono::milliseconds> orders_took();

    /// Up to `most` sagas that have not ended, each with its steps, as lines of text.
    std::vector<std::string> describe_unfinished(int most);

private:
    std::int64_t sum_over_services(std::string const& query);

    std::array<pqxx::connection, service_count> connections_;
};

}  // namespace skald::rig
