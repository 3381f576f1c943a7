// One run of the matrix: an order goes its way, a fault strikes, all is healed, and then the invariants must hold.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "customer.hpp"
#include "plan.hpp"
#include "shop_system.hpp"

namespace skald::crash {

/// A literal in SQL; for the harness's own keys and names.
inline std::string sql_text(std::string_view text)
{
    return '\'' + std::string{text} + '\'';
}

/// The end of an itinerary of the order example.
inline constexpr std::string_view itinerary_steps =
    "create-order@orders=compensatable charge-payment@payments=compensatable "
    "arrange-shipping@shipping=pivot confirm-order@orders=retriable";

/// For copies of messages to be processed. One that a stand-in or a dying process took is in no trace.
inline constexpr std::chrono::milliseconds late_copy{1'000};

/// One order of a run: the one that goes the run's way, or a companion that goes forward.
struct placed
{
    std::string key, person, item;
    way const* goes{};
    std::unique_ptr<customer> client;
    std::size_t answers_looked_at{};
};

struct result
{
    plan what;
    bool sprang{};                    // the fault happened
    bool is_late{};                   // it had not ended, and something was still on its way
    std::vector<std::string> broken;  // the invariants that do not hold, each with what was found
    hit_counts hits;
    std::chrono::milliseconds took{};
};

/// Threads: one.
class run
{
public:
    /// `number` distinguishes the orders of one system. `patience`: how soon the order must have ended.
    run(shop_system& shop, plan what, int number, std::chrono::milliseconds patience);

    result execute();

private:
    using clock = std::chrono::steady_clock;

    void prepare();
    void send_malformed();
    void disturb();
    void bind_or_unbind();
    void repeat_captured();
    void make_up_saga();
    void overtake();
    void come_late();
    void send_made_up(std::string const& step, std::string const& direction, std::string const& deadline = {});
    void unblock();

    // together.cpp
    void add_companions(int number);
    void place(placed& order);
    void come_together();

    // operator_commands.cpp
    void issue_commands();
    void give(std::string const& order);
    bool has_met(std::string const& order);
    bool are_commands_taken();
    void judge_operator();
    void operate(std::size_t service, std::vector<std::string> const& words);

    // expiring.cpp
    void prepare_others();
    void forget();
    void purge_everywhere();
    void send_copies();
    void age(int days);
    std::string kept();
    long remembered(std::string const& key);
    void judge_forgetting();

    void watch_answers();
    void watch_answers(placed& order);
    bool wait_for(bool (run::*condition)(), std::chrono::milliseconds longest);
    bool is_ended();
    bool is_about_to_show();
    bool is_over();
    bool are_copies_done();
    bool are_copies_acked();
    bool has_sprung();
    bool is_quiet();
    bool are_outboxes_empty();
    bool is_at_rest();
    std::string where_it_is();

    void judge();
    void judge_answers(placed const& order);
    void judge_orders(placed const& order);
    void judge_payments(placed const& order);
    void judge_shipping(placed const& order);

    void judge_wait(placed const& order);

    // calls.cpp
    void answer_unknown();
    void judge_gateway(placed const& order);
    bool must_be_unknown() const;
    bool may_be_unknown() const;
    void expect(std::string_view invariant, std::string const& what, std::string const& found,
                std::string const& expected);

    std::string value(std::size_t service, std::string const& sql) { return shop_.database(service).value(sql); }

    shop_system& shop_;
    way const& goes_;
    std::chrono::milliseconds patience_;
    std::string key_, person_, item_;
    std::string older_, stuck_;   // the keys of two other sagas
    std::vector<placed> placed_;  // the run's own order, and then its companions
    std::unique_ptr<pqxx::connection> blocker_connection_;
    std::unique_ptr<pqxx::work> blocker_;
    std::map<std::string, std::size_t> seen_messages_;
    std::array<unsigned, services.size()> acks_expected_{};  // once copies of messages to steps are processed
    std::array<unsigned, services.size()> copies_{};         // how many of them were sent at once
    std::vector<test::raw_message> captured_;                // messages to steps, each once
    int stage_{};                                            // of a disturbance that has several
    clock::time_point copies_until_;
    std::string cache_hits_;  // when the older saga was gone
    long stuck_remembered_{};
    bool was_disturbed_{};
    bool was_unknown_{};
    bool is_bound_{true};
    result result_;
};

}  // namespace skald::crash
