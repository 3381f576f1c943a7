// The other home: orders that begin in a database of their own, by SQL, half of them with a deadline that may pass.
#pragma once

#include "rig/order_plan.hpp"
#include "rig/verdict.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace order_storm {

/// Threads: one.
class kiosk
{
public:
    /// On the server of that database, in one of its own. `orders` are placed evenly over `takes`.
    kiosk(std::string const& server, std::vector<skald::rig::planned_order> orders, std::chrono::duration<double> takes,
          std::uint64_t seed);

    std::string const& database_url() const { return url_; }
    void create_database() const;
    bool has_tables() const;

    void open() { opened_ = std::chrono::steady_clock::now(); }
    /// Those that are due, one for each call; what the database does not accept is placed again, under its key.
    void place_due();

    /// Whether all are placed and have ended.
    bool is_at_rest() const;

    std::vector<skald::rig::order_elsewhere> ends() const;

private:
    std::string const server_;
    std::string const url_;
    std::vector<skald::rig::planned_order> const orders_;
    std::chrono::duration<double> const takes_;
    skald::rig::random_source random_;
    std::size_t placed_{};
    std::chrono::steady_clock::time_point opened_{};
};

}  // namespace order_storm
