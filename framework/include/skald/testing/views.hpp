// What a test may look at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace skald::testing {

/// A message, as it went to the broker or as a service has it in its hands.
/// `name` says which it is: the step that it is for ("charge-payment", "charge-payment.compensate"), what a step tells its
/// saga's home ("charge-payment.progress"), what a step published ("charge-payment.1.receipt"), or an order ("control@payments").
/// A second one of that name, such as the next attempt, is "charge-payment#2".
struct message_view
{
    std::uint64_t number{};  // the kit's own, for replay()
    std::string name;
    std::string destination;
    std::string id;
    std::string type;
    int attempt{1};
    std::string body;
};

struct record_view
{
    std::string service;
    std::string step;
    std::string status;  // completed, retrying, rejected, parked, cancelled
    int attempts{};
    std::string error;
};

struct saga_view
{
    std::string key;
    std::string status;  // running, compensating, completed, compensated, stuck; empty: there is no such saga
    std::string reason;
    std::string data;  // JSON, as it was started
};

using rows = std::vector<std::string>;  // a row as text: its columns, joined by " | "; NULL is "<null>"

}  // namespace skald::testing
