// One client of the shop: it orders over HTTP, and repeats under the same key until it is sure of the response.
//
// This is what any client of an entry point with `Idempotency-Key` has to do. A refused connection, a lost response, a
// 5xx and a 409 (the same key is in flight) all mean: send it again, with the same key and the same bytes. Everything
// else is final, and must be the same response each time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "rig/http.hpp"
#include "rig/order_plan.hpp"

namespace skald::rig {

/// What the clients learned about one order. Used by one thread at a time.
struct order_record
{
    bool accepted{};                             // a 202 was received
    int answers{};                               // how many 202s
    int fresh_answers{};                         // how many of them were not marked as replayed: at most one may be
    std::chrono::microseconds answered_after{};  // from when the first request was due
    std::string order_id;
    std::string saga;
    std::string location;
    std::string body;
    std::string told;          // the final status that GET of the location reported
    std::string last_refusal;  // why it was not accepted so far
    std::string wrong;         // the first response that broke the contract, in words; empty if none did
};

/// Shared by all clients, read by the display.
struct load_counters
{
    std::atomic<int> accepted{};
    std::atomic<int> sent_twice{};
    std::atomic<int> answered_in_flight{};  // 409
    std::atomic<int> asked_again{};         // after a fault: refused, reset, timed out, 5xx
    std::atomic<int> wrong_answers{};
};

class order_client
{
public:
    order_client(std::uint16_t port, std::uint64_t seed, load_counters& counters, std::stop_token const& stop);

    /// Until the order is accepted, or `ask_again_for` is over.
    void place(planned_order const& order, order_record& record);

    /// The same request on two connections simultaneously.
    void place_twice_at_once(planned_order const& order, order_record& record);

    /// The second request for an order that was accepted before.
    void place_again(planned_order const& order, order_record& record);

    /// Follows the Location of an accepted order, and records which status of its saga it reports.
    void look_up(planned_order const& order, order_record& record);

    bool stopped() const { return stop_.stop_requested(); }

private:
    void repeat_until_final(http_client& connection, planned_order const& order, order_record& record,
                            std::optional<httplib::Response> response);
    bool judge(httplib::Response const& response, planned_order const& order, order_record& record, bool known_before);
    void judge_accepted(httplib::Response const& response, planned_order const& order, order_record& record,
                        bool known_before);
    void note_wrong(order_record& record, std::string what);
    bool pause(std::chrono::milliseconds about);

    http_client first_;
    http_client second_;
    random_source random_;
    load_counters& counters_;
    std::stop_token stop_;
};

}  // namespace skald::rig
