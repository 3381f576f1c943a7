// Customers who order from a thread of their own, whatever is broken meanwhile, and remember the responses.
#pragma once

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/shop.hpp"

namespace skald::test {

/// Orders from a thread of its own until it is stopped; what was not accepted is sent again with the same key.
class customers
{
public:
    explicit customers(shop& s, std::string prefix = "load") : shop_{s}, prefix_{std::move(prefix)}
    {
        thread_ = std::jthread{[this](std::stop_token const& stop) {
            for (int i = 0; !stop.stop_requested() && i < orders_max; ++i) place(prefix_ + '-' + std::to_string(i));
        }};
    }
    /// Finishes the current order. Every order counted was accepted.
    int stop()
    {
        thread_.request_stop();
        thread_.join();
        return accepted_;
    }
    int accepted() const { return accepted_; }
    static constexpr int orders_max = 500;

    /// Responses that no fault excuses.
    std::vector<std::string> wrong() const { return wrong_; }

private:
    void place(std::string const& key)
    {
        std::string const sku = ++placed_ % 4 == 0 ? "rare" : "lamp";
        bool const done = wait_until(
            [&] {
                try {
                    auto const answer = shop_.order(key, {.sku = sku, .cents = 10});
                    if (answer.status == 202) return true;
                    if (answer.status != 0 && answer.status != 409 && answer.status != 503)
                        wrong_.push_back(std::to_string(answer.status) + ' ' + answer.body);
                }
                catch (std::exception const&) {
                    // The service is being restarted.
                }
                return false;
            },
            std::chrono::seconds{60});
        if (done) ++accepted_;
        else wrong_.push_back(key + " was never accepted");
    }

    shop& shop_;
    std::string prefix_;
    int placed_{0};
    std::atomic<int> accepted_{0};
    std::vector<std::string> wrong_;
    std::jthread thread_;
};

inline void check_all_well(shop& s, customers& load)
{
    int const accepted = load.stop();
    CHECK(load.wrong().empty());
    for (auto const& wrong : load.wrong()) MESSAGE(wrong);
    CHECK(s.all_end(std::chrono::seconds{90}));
    CHECK(s.outboxes_empty());
    CHECK(s.orders_db.count("customer_order") == accepted);
    CHECK(s.parked_in_all() == 0);
    s.check_books(100001, 1000);
}

inline bool reaches(customers const& load, int count)
{
    return wait_until([&] { return load.accepted() >= std::min(count, customers::orders_max); },
                      std::chrono::seconds{60});
}

}  // namespace skald::test
