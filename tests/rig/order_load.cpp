#include "rig/order_load.hpp"

#include <algorithm>
#include <deque>

namespace skald::rig {
namespace {

// A request that is to be repeated soon waits until its client has placed this many further orders.
constexpr std::size_t orders_between = 3;

constexpr std::chrono::milliseconds look_again{5};

}  // namespace

order_load::order_load(order_plan const& plan, std::uint16_t port, int clients, std::uint64_t seed,
                       double orders_per_second)
    : plan_{plan}, port_{port}, clients_{clients}, seed_{seed}, orders_per_second_{orders_per_second},
      records_(plan.orders.size())
{}

void order_load::start_orders()
{
    start(&order_load::place_orders);
}

void order_load::start_epilogue()
{
    start(&order_load::repeat_and_look_up);
}

void order_load::start(client_work work)
{
    threads_.clear();
    started_ = std::chrono::steady_clock::now();
    next_ = 0;
    clients_at_work_ = clients_;
    for (int i = 0; i < clients_; ++i)
        threads_.emplace_back([this, work, i](std::stop_token const& stop) {
            order_client client{port_, seed_ + static_cast<std::uint64_t>(i) + 1, counters_, stop};
            (this->*work)(client);
            clients_at_work_--;
        });
}

/// When the rate allows it; without a rate, now.
std::chrono::steady_clock::time_point order_load::due(std::size_t order) const
{
    using clock = std::chrono::steady_clock;
    if (orders_per_second_ <= 0) return clock::now();
    std::chrono::duration<double> const after{static_cast<double>(order) / orders_per_second_};
    return started_ + std::chrono::duration_cast<clock::duration>(after);
}

/// False if the client is to stop instead.
bool order_load::wait_for_turn(std::size_t order, order_client const& client) const
{
    auto const turn = due(order);
    for (auto now = std::chrono::steady_clock::now(); held_ || now < turn; now = std::chrono::steady_clock::now()) {
        if (client.stopped()) return false;
        // In short pieces, so that a call to hold or to stop is soon seen.
        std::this_thread::sleep_until(held_ ? now + look_again : std::min(turn, now + look_again));
    }
    return !client.stopped();
}

void order_load::place_orders(order_client& client)
{
    std::deque<std::size_t> soon;
    auto const repeat_down_to = [&](std::size_t left) {
        for (; soon.size() > left; soon.pop_front())
            client.place_again(plan_.orders[soon.front()], records_[soon.front()]);
    };
    for (auto i = next_++; i < plan_.orders.size() && wait_for_turn(i, client); i = next_++) {
        auto const& order = plan_.orders[i];
        auto const began = due(i);  // a client that gets to an order late does not make its response any faster
        if (order.sent_again == again::at_once) client.place_twice_at_once(order, records_[i]);
        else client.place(order, records_[i]);
        records_[i].answered_after =
            std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began);
        if (order.sent_again == again::soon) soon.push_back(i);
        repeat_down_to(orders_between);
    }
    repeat_down_to(0);
}

void order_load::repeat_and_look_up(order_client& client)
{
    for (auto i = next_++; i < plan_.orders.size() && !client.stopped(); i = next_++) {
        auto const& order = plan_.orders[i];
        if (order.sent_again == again::after_the_end) client.place_again(order, records_[i]);
        client.look_up(order, records_[i]);
    }
}

}  // namespace skald::rig
