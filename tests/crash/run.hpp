// One run of the matrix: an order goes its way, a fault strikes, all is healed, and then the invariants must hold.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "customer.hpp"
#include "plan.hpp"
#include "shop_world.hpp"

namespace skald::crash {

/// A literal in SQL; for the harness's own keys and names.
inline std::string sql_text(std::string_view text)
{
    return '\'' + std::string{text} + '\'';
}

struct result
{
    plan what;
    bool sprang{};                    // the fault happened
    std::vector<std::string> broken;  // the invariants that do not hold, each with what was found
    hit_counts hits;
    std::chrono::milliseconds took{};
};

/// Threads: one.
class run
{
public:
    /// `number` tells the orders of one world apart. `patience`: by when the order must have come to its end.
    run(shop_world& shop, plan what, int number, std::chrono::milliseconds patience);

    result execute();

private:
    using clock = std::chrono::steady_clock;

    void prepare();
    void send_malformed();
    void disturb();
    void repeat_captured();
    void overtake();
    void send_made_up(std::string const& step, std::string const& direction);
    void watch_answers();
    bool wait_for(bool (run::*condition)(), std::chrono::milliseconds longest);
    bool is_ended();
    bool is_about_to_show();
    bool is_settled();
    bool are_copies_settled();
    bool has_sprung();
    bool is_quiet();
    std::string where_it_is();

    void judge();
    void judge_answers();
    void judge_orders();
    void judge_payments();
    void judge_shipping();
    void expect(std::string_view invariant, std::string const& what, std::string const& found,
                std::string const& expected);

    std::string value(std::size_t service, std::string const& sql) { return shop_.database(service).value(sql); }

    shop_world& shop_;
    way const& goes_;
    std::chrono::milliseconds patience_;
    std::string key_, person_, item_;
    std::unique_ptr<customer> customer_;
    std::unique_ptr<pqxx::connection> blocker_connection_;
    std::unique_ptr<pqxx::work> blocker_;
    std::map<std::string, std::size_t> seen_messages_;
    std::array<unsigned, services.size()> copies_{};  // of messages to steps, sent to each service
    std::size_t answers_looked_at_{};
    bool was_disturbed_{};
    bool is_bound_{true};
    result result_;
};

}  // namespace skald::crash
