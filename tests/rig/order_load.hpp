// Many clients working simultaneously: each takes the next planned order until there are none left.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "rig/order_client.hpp"
#include "rig/order_plan.hpp"

namespace skald::rig {

/// Threads: for the thread that made it. `plan` must outlive it.
class order_load
{
public:
    /// `orders_per_second`: no order is placed earlier than that allows; 0: all as fast as they are answered.
    order_load(order_plan const& plan, std::uint16_t port, int clients, std::uint64_t seed,
               double orders_per_second = 0);

    /// Places all orders, and repeats those that are to be repeated at once or soon.
    void start_orders();

    /// While held, no further order is started.
    void hold(bool held) { held_ = held; }

    /// Repeats those that are to be repeated after the end, and looks up the outcome of each order. The first run must
    /// have finished.
    void start_epilogue();

    /// Whether every client has done its part of what was started last.
    bool finished() const { return clients_at_work_ == 0; }

    load_counters const& counters() const { return counters_; }

    /// One record for each planned order, in the same place. Only to be read when finished().
    std::vector<order_record> const& records() const { return records_; }

private:
    using client_work = void (order_load::*)(order_client&);

    void start(client_work work);
    std::chrono::steady_clock::time_point due(std::size_t order) const;
    bool wait_for_turn(std::size_t order, order_client const& client) const;
    void place_orders(order_client& client);
    void repeat_and_look_up(order_client& client);

    order_plan const& plan_;
    std::uint16_t port_;
    int clients_;
    std::uint64_t seed_;
    double orders_per_second_;
    std::chrono::steady_clock::time_point started_;
    std::atomic<bool> held_{};
    load_counters counters_;
    std::vector<order_record> records_;
    std::atomic<std::size_t> next_{};
    std::atomic<int> clients_at_work_{};
    std::vector<std::jthread> threads_;  // last: they stop before what they use is destroyed
};

}  // namespace skald::rig
