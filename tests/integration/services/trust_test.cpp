// Whom Skald trusts, and what it lets them do: docs/security.md.
#include "support/shop.hpp"
#include "support/trust.hpp"

using namespace skald::test;

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
