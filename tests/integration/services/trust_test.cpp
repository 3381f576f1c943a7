// Whom Skald trusts, and what it lets them do: docs/security.md.
#include "support/shop.hpp"

using namespace skald::test;

namespace {

/// What nobody sent: the payment of a completed order, to be given back.
raw_message refund_of(std::string const& key, raw_message charge)
{
    auto const id = key + ":charge-payment.compensate";
    auto plan = charge.header("x-saga-itinerary");
    plan.replace(0, plan.find(' '), "back");
    charge.set("x-idempotency-key", id);
    charge.set("x-saga-itinerary", plan);
    charge.set_id(id);
    return charge;
}

raw_message charge_of(std::vector<raw_message> const& captured)
{
    auto const charge = std::ranges::find(captured, "charge-payment", &raw_message::type);
    REQUIRE(charge != captured.end());
    return *charge;
}

}  // namespace

TEST_CASE("without signatures one message of whoever may publish gives the money of a completed order back")
{
    shop s;
    amqp_hands hands{broker()};
    hands.capture_everything();
    s.open();
    REQUIRE(s.order("k", {.cents = 10'000}).status == 202);
    REQUIRE(s.ends("k", "completed"));
    hands.send(refund_of("k", charge_of(hands.take_captured())));
    CHECK(wait_until([&] { return s.payments_db.count("charge WHERE kind = 'refund'") == 1; }));
    CHECK(s.parked_in_all() == 0);
    s.close_in_order();
}
