// What an attacker may send who can publish, but is not a service.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/amqp_hands.hpp"

namespace skald::test {

/// What no service sent: a refund of the payment of a completed order.
inline raw_message refund_of(std::string const& key, raw_message charge)
{
    auto const id = key + ":charge-payment.compensate";
    auto plan = charge.header("x-saga-itinerary");
    plan.replace(0, plan.find(' '), "back");
    charge.set("x-idempotency-key", id);
    charge.set("x-saga-itinerary", plan);
    charge.set_id(id);
    return charge;
}

inline raw_message charge_of(std::vector<raw_message> const& captured)
{
    auto const charge = std::ranges::find(captured, "charge-payment", &raw_message::type);
    if (charge == captured.end()) throw std::runtime_error{"no charge was captured"};
    return *charge;
}

}  // namespace skald::test
